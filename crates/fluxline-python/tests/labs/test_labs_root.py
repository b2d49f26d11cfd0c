"""Exports to ROOT, read back by uproot."""

import json

import numpy as np
import pytest
from needs import package

pa = package("pyarrow")
uproot = package("uproot")
package("awkward")

import memory_runs as runs  # noqa: E402
from test_labs_hdf5 import random_batches  # noqa: E402

import fluxline as fl  # noqa: E402
from fluxline.root import to_root  # noqa: E402


def is_nested_twice(kind):
    return pa.types.is_list(kind) and pa.types.is_binary(kind.value_type)


def values_of(tree, name, kind):
    """Returns the values of a branch as those of Arrow: None where they are absent."""
    found = tree[name].array(library="np") if pa.types.is_string(kind) \
        or pa.types.is_dictionary(kind) else tree[name].array()
    valid = tree[f"{name}_valid"].array(library="np")
    values = found.tolist()
    return [one if there else None for one, there in zip(values, valid, strict=True)]


def wanted_of(batches, one):
    columns = [batch.column(one.name) for batch in batches]
    if pa.types.is_timestamp(one.type):
        columns = [column.cast(pa.int64()) for column in columns]
    values = [value for column in columns for value in column.to_pylist()]
    return [list(value) if isinstance(value, bytes) else value for value in values]


@pytest.mark.parametrize("seed", range(40))
def test_random_tables_come_back_with_their_gaps(seed, tmp_path):
    batches = random_batches(seed)
    report = to_root(runs.MemoryRun(runs.info(), {"x": batches}), tmp_path / "run.root")
    with uproot.open(tmp_path / "run.root") as file:
        tree = file["x"]
        assert tree.num_entries == sum(batch.num_rows for batch in batches)
        for one in batches[0].schema:
            if is_nested_twice(one.type):
                assert any(f"`{one.name}`" in note for note in report.notes)
                assert one.name not in tree
            elif tree.num_entries:
                found, wanted = values_of(tree, one.name, one.type), wanted_of(batches, one)
                assert found == wanted, (one, found, wanted)


def test_run_json_and_units_are_beside_the_trees(tmp_path):
    field = pa.field("adc", pa.int16(), False, {"unit": "mV", "help": "height"})
    batch = pa.record_batch([pa.array([1, 2], pa.int16())], schema=pa.schema([field]))
    to_root(runs.MemoryRun(runs.info(), {"x": [batch]}), tmp_path / "run.root", compression="gzip")
    with uproot.open(tmp_path / "run.root") as file:
        assert json.loads(file["run_json"])["experiment"]
        assert json.loads(file["x_columns"]) == {"adc": {"unit": "mV", "help": "height"}}
        assert file["x"]["adc"].array(library="np").dtype == np.int16


def test_a_foreign_compression_or_an_existing_file_is_a_sentence(tmp_path):
    run = runs.MemoryRun(runs.info(), {})
    with pytest.raises(fl.Error, match="no compression `lzf`; write none or gzip"):
        to_root(run, tmp_path / "run.root", compression="lzf")
    (tmp_path / "run.root").write_text("mine")
    with pytest.raises(fl.Error, match="exists already"):
        to_root(run, tmp_path / "run.root")
    assert (tmp_path / "run.root").read_text() == "mine"
