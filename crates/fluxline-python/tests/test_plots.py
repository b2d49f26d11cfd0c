"""Plots over a whole run: the same counts as NumPy finds in its tables."""

import json

import numpy as np
import pytest
from test_runs import EVENTS, SAMPLES, record

import fluxline as fl

PLOTS = """
[[plot]]
name = "adc"
kind = "histogram"
x = "adc"
bins = 73
range = [-30000, 20000.5]
[[plot]]
name = "peak of board 1 in even events"
kind = "histogram"
x = "max(adc) / 3"
where = "board == 1"
events = "event.key % 2 == 0"
bins = 1000
range = [10600, 10950]
[[plot]]
name = "ratio"
kind = "histogram"
x = "adc / 7"
where = "adc > 0"
bins = 50
range = [0.1, 5000]
log = true
[[plot]]
name = "temperature"
kind = "profile"
x = "adc"
y = "temperature"
bins = 16
range = [-32768, 32768]
[[plot]]
name = "boards"
kind = "image"
x = "board"
y = "adc"
bins = 2
range = [0, 2]
y-bins = 9
y-range = [-32768, 30000]
[[plot]]
name = "means"
kind = "trace"
x = "mean(adc)"
[[plot]]
name = "rate"
kind = "rate"
"""


@pytest.fixture(scope="module")
def run(program, tmp_path_factory):
    rng = np.random.default_rng(5)
    samples = rng.integers(-(2**15), 2**15, (EVENTS, 2, SAMPLES), dtype=np.int16)
    return fl.Run(record(program, tmp_path_factory.mktemp("plots"), samples, PLOTS))


@pytest.fixture
def table(run):
    return run.table("digitizer-waveform")


def count(values, edges):
    """Return the counts of values from each edge to below the next one, those below and above."""
    bins = np.searchsorted(edges, values, side="right") - 1
    inside = (values >= edges[0]) & (values < edges[-1])
    counts = np.bincount(bins[inside], minlength=len(edges) - 1)
    return counts, np.sum(values < edges[0]), np.sum(values >= edges[-1])


def check(plot, values):
    counts, below, above = count(values, plot.edges)
    np.testing.assert_array_equal(plot.counts, counts)
    assert (plot.values["underflow"], plot.values["overflow"]) == (below, above)
    inside = values[(values >= plot.edges[0]) & (values < plot.edges[-1])]
    assert plot.values["entries"] == len(inside) == plot.counts.sum()
    np.testing.assert_allclose([plot.mean, plot.sd], [inside.mean(), inside.std()], rtol=1e-9)


def test_histograms_are_those_of_numpy_over_the_table_to_the_last_count(run, table):
    plots = run.plots()
    adc, board, event = (table.numpy(name) for name in ("adc", "board", "event"))
    check(plots["adc"], adc.ravel().astype(float))
    keys = run.events().numpy("key")[event.astype(int)]
    chosen = (board == 1) & (keys % 2 == 0)
    peaks = plots["peak of board 1 in even events"]
    check(peaks, adc[chosen].max(axis=1) / 3)
    assert peaks.packets["cut"] == np.sum(keys % 2 == 1)
    assert peaks.values["cut"] == np.sum((board != 1) & (keys % 2 == 0))
    check(plots["ratio"], adc[adc > 0] / 7)
    steps = np.diff(np.log(plots["ratio"].edges))
    np.testing.assert_allclose(steps, steps[0], rtol=1e-9)


def test_profiles_images_and_curves_are_those_of_numpy(run, table):
    plots = run.plots()
    adc, board = table.numpy("adc"), table.numpy("board")
    temperature = np.broadcast_to(table.numpy("temperature")[:, None], adc.shape)
    profile = plots["temperature"]
    np.testing.assert_array_equal(profile.counts, count(adc.ravel(), profile.edges)[0])
    at = np.searchsorted(profile.edges, adc.ravel(), side="right") - 1
    sums = np.bincount(at, weights=temperature.ravel(), minlength=16)
    np.testing.assert_allclose(profile.means, sums / profile.counts, rtol=1e-12)
    image = plots["boards"]
    assert image.counts.shape == (2, 9)
    for number in range(2):
        rows = count(adc[board == number].ravel(), image.y_edges)[0]
        np.testing.assert_array_equal(image.counts[number], rows)
    means = plots["means"]
    np.testing.assert_allclose(means.sums.sum(), adc.mean(axis=1).sum(), rtol=1e-9)
    assert means.edges.dtype == np.dtype("datetime64[ns]")
    with pytest.raises(TypeError, match="no means"):
        _ = plots["adc"].means


def test_every_packet_of_the_files_is_counted_in_each_plot(run, program):
    for plot in run.plots().values():
        packets, values = plot.packets, plot.values
        assert packets["seen"] == 2 * EVENTS and packets["skipped"] == 0 and plot.filled == 1
        assert packets["seen"] == packets["used"] + packets["cut"] + packets["other"]
        parts = ("entries", "underflow", "overflow", "not_a_number", "cut")
        assert values["seen"] == sum(values[part] for part in parts)
    assert run.plots()["rate"].counts.sum() == 2 * EVENTS
    with open(f"{run.path}/plots.json", encoding="utf-8") as file:
        assert json.load(file)["ended"] is True


def test_a_run_without_plots_has_none(program, tmp_path):
    samples = np.zeros((EVENTS, 2, 4), dtype=np.int16)
    assert fl.Run(record(program, tmp_path, samples)).plots() == {}
