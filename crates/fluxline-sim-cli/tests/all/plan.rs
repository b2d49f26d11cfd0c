//! `fluxline plan` as a black box: verdicts that a hand can compute, growth, and what is refused.

use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::support::{call, call_json, call_json_ending, refused, run_document, text};

const INPUT: i32 = 3;
const LOOK: i32 = 7;

/// Writes an experiment of boards with 1000 bytes a packet; `events` packets a second each.
fn experiment(folder: &Path, boards: u32, rate: u32, requirements: &str) -> PathBuf {
    let mut lines = String::from("name = \"hand\"\n");
    for board in 0..boards {
        lines += &format!(
            "[[source]]\nname = \"b{board}\"\nformat = \"counter\"\n[source.emulator]\nlink = \
             \"direct\"\n"
        );
    }
    lines += &format!(
        "[events]\nbuild = \"key\"\n[record]\nbatch-ms = 10\n[requirements]\nrate-hz = {rate}\n\
         packet-bytes = 1000\n{requirements}\n"
    );
    write(folder, "experiment.toml", &lines)
}

fn write(folder: &Path, name: &str, text: &str) -> PathBuf {
    let path = folder.join(name);
    std::fs::write(&path, text).expect("written");
    path
}

/// Makes a plan of which a candidate meets all requirements.
fn plan(experiment: &Path, candidates: &Path, packets: &str) -> Value {
    plan_ending(experiment, candidates, packets, 0)
}

/// Makes a plan that ends with this status.
fn plan_ending(experiment: &Path, candidates: &Path, packets: &str, status: i32) -> Value {
    let (experiment, candidates) = (text(experiment), text(candidates));
    let arguments = ["plan", experiment, "--candidates", candidates, "--packets", packets];
    call_json_ending(&arguments, status)
}

fn candidate(link: &str, more: &str) -> String {
    format!("[[candidate]]\nname = \"{link}\"\nlink = \"{link}\"\n{more}\n")
}

#[test]
fn eight_boards_of_200_mb_s_do_not_pass_one_gigabit() {
    let folder = tempfile::tempdir().expect("a folder");
    // 8 x 25,000 x 1000 B = 200 MB/s. 1 Gb/s carries 125 MB/s x (1500 - 44) / (1500 + 38).
    let file = experiment(folder.path(), 8, 25_000, "sensors = 8");
    let lines = candidate("sim:ethernet?rate=1G", "");
    let answer = plan_ending(&file, &write(folder.path(), "c.toml", &lines), "400", LOOK);
    assert_eq!(answer["verdicts"], serde_json::json!(["missed"]));
    let year = &answer["candidates"][0]["configurations"][0]["years"][0];
    assert_eq!((&year["by"], &year["packets"]), (&"bound".into(), &0.into()));
    let part = &year["bottleneck"];
    let number = |key: &str| part[key].as_f64().expect("a number");
    assert_eq!(part["name"], "link of a readout");
    assert!((number("load") - 200.0).abs() < 0.5 && (number("capacity") - 118.335).abs() < 0.01);
}

#[test]
fn a_plan_without_a_link_that_meets_all_ends_as_if_one_did() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = experiment(folder.path(), 2, 20_000, "");
    let (slow, fast) = (candidate("sim:ethernet?rate=100M", ""), candidate("sim:ethernet", ""));
    let none = write(folder.path(), "none.toml", &slow);
    let answer = plan_ending(&file, &none, "40000", LOOK);
    let says = answer["sentence"].as_str().expect("a sentence");
    assert!(says.contains("no candidate meets all requirements: missed by 1"), "{says}");
    // One is enough.
    let one = write(folder.path(), "one.toml", &(slow + &fast));
    let answer = plan(&file, &one, "40000");
    assert_eq!(answer["verdicts"], serde_json::json!(["missed", "met"]), "{answer:#}");
    assert!(answer["sentence"].is_null());
}

#[test]
fn core_memory_and_disk_bound_a_node_as_computed_by_hand() {
    let folder = tempfile::tempdir().expect("a folder");
    // 2 x 10,000 packets/s of 1000 B: 20 MB/s. Core: 20 k/s of 1 / (40 us + 1000 x 20 ns) = 16.7.
    let file = experiment(folder.path(), 2, 10_000, "");
    let host = |numbers: &str| format!("host = {{ {numbers}, source = \"by hand\" }}");
    for (numbers, name, capacity) in [
        ("packet-ns = 40_000, byte-ns = 20", "core of a readout", 16.667),
        ("memory-mb-s = 50, memory-passes = 3", "memory bus of a readout", 50.0),
        ("disk-mb-s = 15", "disk of a builder", 15.0),
    ] {
        let lines = candidate("sim:ethernet?rate=10G", &host(numbers));
        let answer = plan_ending(&file, &write(folder.path(), "c.toml", &lines), "400", LOOK);
        let part = &answer["candidates"][0]["configurations"][0]["years"][0]["bottleneck"];
        assert_eq!((&answer["verdicts"][0], &part["name"]), (&"missed".into(), &name.into()));
        let found = part["capacity"].as_f64().expect("a number");
        assert!((found - capacity).abs() < 0.2, "{name}: {found}");
    }
    // A second builder shares the load of the disk: 10 MB/s each.
    let lines = candidate(
        "sim:ethernet?rate=10G",
        &format!("builders = [1, 2]\n{}", host("disk-mb-s = 15")),
    );
    let answer = plan(&file, &write(folder.path(), "c.toml", &lines), "40000");
    let smallest = &answer["candidates"][0]["smallest"];
    assert_eq!(smallest, &serde_json::json!({ "readouts": 1, "builders": 2 }), "{answer:#}");
}

#[test]
fn what_bounds_leave_open_is_simulated_with_the_same_answer_each_time() {
    let folder = tempfile::tempdir().expect("a folder");
    let more = "latency-us = 100_000\nloss-max = 1e-6";
    let file = experiment(folder.path(), 2, 1000, more);
    let lines = candidate("sim:ethernet", "") + &candidate("sim:sci", "");
    let candidates = write(folder.path(), "c.toml", &lines);
    let answer = plan_ending(&file, &candidates, "4000", LOOK);
    let year = &answer["candidates"][0]["configurations"][0]["years"][0];
    let of = |name: &str| {
        let all = year["requirements"].as_array().expect("requirements");
        all.iter()
            .find(|of| of["name"] == name)
            .unwrap_or_else(|| panic!("{name}: {year:#}"))
            .clone()
    };
    assert_eq!((&year["by"], &year["packets"]), (&"simulation".into(), &4000.into()));
    assert_eq!(
        (&of("rate-hz")["verdict"], &of("latency-us")["verdict"]),
        (&"met".into(), &"met".into())
    );
    // 4000 packets cannot show a loss of 1e-6.
    assert_eq!(of("loss-max")["verdict"], "undecided");
    let words = of("loss-max")["words"].to_string();
    assert!(words.contains("0 of 4000 lost: below 7.5e-4 at 95 %"), "{words}");
    assert_eq!(plan_ending(&file, &candidates, "4000", LOOK), answer);
}

#[test]
fn growth_breaks_a_link_once_and_for_all_later_years() {
    let folder = tempfile::tempdir().expect("a folder");
    // 40 MB/s, doubled each year: 80 MB/s fit, 160 MB/s are more than 118.3 MB/s.
    let file = experiment(folder.path(), 2, 20_000, "growth-percent = 100\nyears = 5");
    let lines = candidate("sim:ethernet?rate=1G", "");
    let answer = plan_ending(&file, &write(folder.path(), "c.toml", &lines), "20000", LOOK);
    let years = answer["candidates"][0]["configurations"][0]["years"].as_array().expect("years");
    let verdicts: Vec<&Value> = years.iter().map(|year| &year["verdict"]).collect();
    assert_eq!(verdicts.len(), 3, "{answer:#}");
    assert!(verdicts[..2].iter().all(|verdict| **verdict != "missed") && *verdicts[2] == "missed");
    let turns = answer["candidates"][0]["sensitivity"].as_array().expect("a list");
    assert!(turns.iter().all(|of| of["turns"] == false || of["assumption"] == "rate"), "{turns:?}");
}

#[test]
fn the_page_names_each_candidate_and_its_reason() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = experiment(folder.path(), 8, 25_000, "");
    let candidates =
        write(folder.path(), "c.toml", &candidate("sim:ethernet?rate=1G", "price = 90"));
    let page = folder.path().join("plan.html");
    let output = call(&["plan", text(&file), "--candidates", text(&candidates), "-o", text(&page)]);
    let said = String::from_utf8(output.stdout).expect("UTF-8");
    assert_eq!(output.status.code(), Some(LOOK), "{said}");
    assert!(said.contains("link of a readout"), "{said}");
    let html = std::fs::read_to_string(page).expect("a page");
    assert!(html.contains("sim:ethernet?rate=1G") && html.contains("missed"));
}

#[test]
fn a_wrong_candidate_or_experiment_is_one_sentence() {
    let folder = tempfile::tempdir().expect("a folder");
    let good = experiment(folder.path(), 2, 1000, "");
    let name = "[[candidate]]\nname = \"a\"\nlink = \"sim:ethernet\"\n";
    for (lines, says) in [
        (format!("{name}speed = 3\n"), "speed"),
        (format!("{name}readouts = []\n"), "readouts takes 1 to 8 numbers"),
        (format!("{name}builders = [0]\n"), "builders takes 1 to 8 numbers"),
        (format!("{name}readouts = [3]\n"), "the experiment has 2 sources"),
        (format!("{name}link-mb-s = -1\n"), "link-mb-s = -1; write a number above 0"),
        (format!("{name}link-mb-s = 80\n"), "link-mb-s needs its source"),
        (format!("{name}host = {{ packet-ns = 5 }}\n"), "need their source"),
        (format!("{name}host = {{ byte-ns = nan }}\n"), "write 0 to 1e9"),
        (format!("{name}{name}"), "two candidates are named `a`"),
        ("candidate = []\n".to_owned(), "write 1 to 64"),
        (name.replace("sim:ethernet", "none.json"), "is not a report of `fluxline bench`"),
        (name.replace("sim:ethernet", "sim:token"), "sim:token"),
    ] {
        let candidates = write(folder.path(), "c.toml", &lines);
        let output = call(&["plan", text(&good), "--candidates", text(&candidates)]);
        let said = refused(&output, INPUT);
        assert!(said.contains(says), "{lines}: {said}");
    }
    let candidates = write(folder.path(), "c.toml", name);
    let board = "[[source]]\nname = \"b\"\nformat = \"counter\"\n";
    let emulated = format!("{board}[source.emulator]\n");
    for (lines, says) in [
        (emulated.clone(), "has no [requirements]"),
        (
            format!("{emulated}[requirements]\nsensors = 9\n"),
            "the emulators of the experiment have 1",
        ),
        (format!("{emulated}rate = 0\n[requirements]\n"), "a plan needs a rate"),
        (
            format!("{board}[source.udp]\nlisten = [\"127.0.0.1:1\"]\n[requirements]\n"),
            "no [source.emulator]",
        ),
        (format!("{emulated}[requirements]\npacket-bytes = 3\n"), "cannot have that size"),
    ] {
        let file = write(folder.path(), "wrong.toml", &lines);
        let said = refused(&call(&["plan", text(&file), "--candidates", text(&candidates)]), INPUT);
        assert!(said.contains(says), "{lines}: {said}");
    }
}

#[test]
fn a_run_and_its_folder_say_which_requirements_were_met() {
    let folder = tempfile::tempdir().expect("a folder");
    let more = "sensors = 3\nlatency-us = 100_000\nloss-max = 0.1";
    let file = experiment(folder.path(), 2, 1000, more);
    let short = std::fs::read_to_string(&file).expect("read");
    let short = short.replace("link = \"direct\"\n", "link = \"direct\"\npackets = 200\n");
    let (file, run) = (write(folder.path(), "short.toml", &short), folder.path().join("run"));
    let arguments = ["run", text(&file), "--link", "sim:ethernet", "--folder", text(&run)];
    let document = call_json(&arguments);
    let checked = document["requirements"].as_array().expect("requirements").clone();
    let verdict = |name: &str| {
        let of = checked.iter().find(|of| of["name"] == name);
        of.unwrap_or_else(|| panic!("{name}: {checked:?}"))["verdict"].clone()
    };
    let verdicts = ["sensors", "rate-hz", "latency-us", "loss-max"].map(verdict);
    assert_eq!(verdicts, ["missed", "met", "met", "met"]);
    assert_eq!(verdict("packet-bytes"), "met");
    assert_eq!(run_document(&run)["requirements"], document["requirements"]);
    // A board's packets have their ways in virtual time.
    assert_eq!(document["inputs"][0]["journeys"]["events"], 200);
}

#[test]
#[ignore = "all: minutes of simulation"]
fn the_answers_of_the_manual_are_others_now() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let manual = std::fs::read_to_string(root.join("docs/plan-examples.md")).expect("the page");
    let mut tried = 0;
    for part in manual.split("```sh\n").skip(1) {
        let (command, behind) = part.split_once("```").expect("the end of a block");
        let command = command.replace("\\\n", " ");
        let lines = behind.lines().skip_while(|line| line.is_empty());
        let lines = lines.take_while(|line| line.starts_with("    "));
        let wanted: Vec<&str> = lines.map(str::trim).collect();
        assert!(wanted.len() > 1, "{command} has no output behind it");
        let mut program = crate::support::fluxline();
        program.current_dir(&root).args(command.split_whitespace().skip(1));
        let said = String::from_utf8(program.output().expect("it starts").stdout).expect("UTF-8");
        let lines: Vec<&str> = said.lines().map(str::trim).collect();
        for line in wanted {
            assert!(lines.contains(&line), "{command} does not say: {line}\n{said}");
        }
        tried += 1;
    }
    assert_eq!(tried, 3, "docs/plan-examples.md");
}
