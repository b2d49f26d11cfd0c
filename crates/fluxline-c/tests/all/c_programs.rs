//! The header is what the source says, and programs of C and C++ work with it.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

const FOLDER: &str = env!("CARGO_MANIFEST_DIR");

/// Returns the header of the source.
fn header() -> String {
    let made = cbindgen::generate(FOLDER).expect("the source can be read");
    let mut text = Vec::new();
    made.write(&mut text);
    String::from_utf8(text).expect("UTF-8")
}

/// `UPDATE=1` writes the header anew.
#[test]
fn the_header_is_fresh() {
    let text = header();
    let path = Path::new(FOLDER).join("include/fluxline.h");
    if std::env::var_os("UPDATE").is_some() {
        std::fs::write(&path, &text).expect("written");
    }
    let found = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(found == text, "run `UPDATE=1 cargo test -p fluxline-c the_header_is_fresh`");
}

/// The declarations of the interface with this number, as programs were compiled with them.
fn interface() -> PathBuf {
    Path::new(FOLDER).join("abi").join(env!("FLUXLINE_INTERFACE"))
}

/// Returns the declarations of the header: without comments, each on one line.
fn declarations() -> Vec<String> {
    let header = header();
    let is_code = |line: &&str| !line.is_empty() && !line.starts_with("//");
    let lines = header.lines().map(|line| line.split("//").next().unwrap_or("").trim());
    let (mut found, mut open) = (Vec::new(), String::new());
    for line in lines.filter(is_code) {
        if let Some(value) = line.strip_prefix("#define FLUXLINE_") {
            found.extend(value.contains(' ').then(|| line.to_owned()));
            continue;
        }
        if line.starts_with('#') || line.starts_with("extern") {
            continue;
        }
        open = format!("{open} {line}").trim().to_owned();
        let (left, right) = (open.matches('{').count(), open.matches('}').count());
        if open.ends_with(';') && left == right {
            found.push(std::mem::take(&mut open));
        }
        if open.starts_with('}') {
            open.clear(); // the end of `extern "C"`
        }
    }
    found
}

/// `UPDATE=1` adds new declarations to the list; old ones stay.
#[test]
fn programs_that_were_compiled_before_still_fit_the_library() {
    let declared = declarations();
    let known = std::fs::read_to_string(interface()).unwrap_or_default();
    let known: Vec<&str> = known.lines().collect();
    assert!(declared.len() > 50, "the header is read wrongly: {declared:?}");
    for old in &known {
        assert!(
            declared.iter().any(|new| new == old),
            "`{old}` has changed: raise INTERFACE in build.rs, and run UPDATE=1 cargo test -p \
             fluxline-c programs_that_were"
        );
    }
    let new: Vec<&String> = declared.iter().filter(|new| !known.contains(&new.as_str())).collect();
    if std::env::var_os("UPDATE").is_some() {
        std::fs::write(interface(), declared.join("\n") + "\n").expect("written");
    } else {
        assert!(
            new.is_empty(),
            "run UPDATE=1 cargo test -p fluxline-c programs_that_were: {new:?}"
        );
    }
}

/// Returns the folder of the C libraries. Cargo builds them with these tests, beside this program,
/// because the crate is a Rust library too.
fn libraries() -> PathBuf {
    let program = std::env::current_exe().expect("a path");
    let folder = program.parent().expect("target/PROFILE/deps").to_path_buf();
    assert!(folder.join("libfluxline_c.a").exists(), "no C library in {}", folder.display());
    folder
}

fn compile(compiler: &str, source: &str, out: &Path, library: &str) {
    let folder = libraries();
    let beside = out.parent().expect("a folder");
    let shared = format!("libfluxline_c.so.{}", env!("FLUXLINE_INTERFACE"));
    // The name by which programs ask for the shared library.
    let _ = std::os::unix::fs::symlink(folder.join("libfluxline_c.so"), beside.join(shared));
    let status = Command::new(compiler)
        .args(["-Wall", "-Wextra", "-Werror", "-O1", "-I"])
        .arg(Path::new(FOLDER).join("include"))
        .arg(Path::new(FOLDER).join("examples").join(source))
        .arg("-o")
        .arg(out)
        .arg(folder.join(library))
        .arg(format!("-Wl,-rpath,{}", beside.display()))
        .args(["-lpthread", "-ldl", "-lm"])
        .status()
        .expect("a compiler");
    assert!(status.success(), "{compiler} {source}");
}

fn start(program: &Path, arguments: &[&str]) -> Child {
    let mut command = Command::new(program);
    command.args(arguments).stdout(Stdio::piped()).stderr(Stdio::piped());
    command.spawn().expect("it starts")
}

#[test]
fn a_c_producer_pushes_into_a_cpp_owner_and_gets_its_errors() {
    let scratch = tempfile::tempdir().expect("a scratch folder");
    let (producer, owner) = (scratch.path().join("producer"), scratch.path().join("owner"));
    compile("cc", "producer.c", &producer, "libfluxline_c.a");
    compile("c++", "owner.cpp", &owner, "libfluxline_c.so");
    let group = format!("shm://test-c-{}", std::process::id());
    let free = || std::net::UdpSocket::bind("127.0.0.1:0").and_then(|socket| socket.local_addr());
    let (far, near) = (free().expect("a port"), free().expect("a port"));
    let links = [
        [format!("{group}/owner"), format!("{group}/producer"), "owner".to_owned()],
        [format!("udp://{far}"), format!("udp://{near}"), far.to_string()],
    ];
    for [far, near, peer] in &links {
        let mut reading = start(&owner, &[far, "7", "20000"]);
        let mut ready = [0; 6];
        let out = reading.stdout.as_mut().expect("piped");
        std::io::Read::read_exact(out, &mut ready).expect("it prints that it is ready");
        let wrong = start(&producer, &[near, peer, "8", "1"]).wait_with_output();
        let wrong = String::from_utf8(wrong.expect("it ends").stderr).expect("UTF-8");
        assert!(wrong.contains("the key is not the region's"), "{wrong}");
        let pushed = start(&producer, &[near, peer, "7", "20000"]).wait_with_output();
        let pushed = pushed.expect("it ends");
        assert!(pushed.status.success(), "{}", String::from_utf8_lossy(&pushed.stderr));
        let read = reading.wait_with_output().expect("it ends");
        let errors = String::from_utf8_lossy(&read.stderr).into_owned();
        assert!(read.status.success(), "{errors}");
        assert_eq!(String::from_utf8_lossy(&read.stdout), "20000 packets\n");
    }
}

/// The same two programs on both links: only the URLs differ.
#[test]
fn c_programs_choose_the_link_by_url_alone() {
    let scratch = tempfile::tempdir().expect("a scratch folder");
    let (receiver, sender) = (scratch.path().join("receiver"), scratch.path().join("sender"));
    compile("cc", "receiver.c", &receiver, "libfluxline_c.so");
    compile("cc", "sender.c", &sender, "libfluxline_c.a");
    let group = format!("shm://test-c-url-{}", std::process::id());
    // A port that is free now: the socket is dropped at once.
    let free = || std::net::UdpSocket::bind("127.0.0.1:0").and_then(|socket| socket.local_addr());
    let (far, near) = (free().expect("a port"), free().expect("a port"));
    let links = [
        [format!("{group}/receiver"), format!("{group}/sender"), "receiver".to_owned()],
        [format!("udp://{far}"), format!("udp://{near}"), far.to_string()],
    ];
    for [far, near, peer] in &links {
        let mut receiving = start(&receiver, &[far, "7", "3"]);
        let mut ready = [0; 6];
        let out = receiving.stdout.as_mut().expect("piped");
        std::io::Read::read_exact(out, &mut ready).expect("it prints that it is ready");
        let wrong = start(&sender, &[near, peer, "8", "no"]).wait_with_output().expect("it ends");
        let wrong = String::from_utf8_lossy(&wrong.stderr).into_owned();
        assert!(wrong.starts_with("import: the key is not the region's"), "{wrong}");
        // The wrong key ended its program, which said no goodbye.
        let ended = receiving.wait_with_output().expect("it ends");
        assert_eq!(ended.status.code(), Some(1), "{far}");
        let ended = String::from_utf8_lossy(&ended.stderr).into_owned();
        assert!(ended.starts_with("the connection ended: the peer is gone"), "{ended}");

        let mut receiving = start(&receiver, &[far, "7", "3"]);
        let out = receiving.stdout.as_mut().expect("piped");
        std::io::Read::read_exact(out, &mut ready).expect("it prints that it is ready");
        let sent = start(&sender, &[near, peer, "7", "one", "two", "three"]);
        let sent = sent.wait_with_output().expect("it ends");
        assert!(sent.status.success(), "{far}: {}", String::from_utf8_lossy(&sent.stderr));
        let received = receiving.wait_with_output().expect("it ends");
        assert_eq!(String::from_utf8_lossy(&received.stdout), "1: one\n2: two\n3: three\n");
    }
}

/// Neither waits for the other by itself: each call has a time-out.
#[test]
fn a_record_of_the_short_c_programs_is_lost_or_doubled() {
    let scratch = tempfile::tempdir().expect("a scratch folder");
    let (sensor, consumer) = (scratch.path().join("sensor"), scratch.path().join("consumer"));
    compile("cc", "sensor.c", &sensor, "libfluxline_c.so");
    compile("cc", "consumer.c", &consumer, "libfluxline_c.so");
    let group = format!("shm://test-c-short-{}", std::process::id());
    let free = || std::net::UdpSocket::bind("127.0.0.1:0").and_then(|socket| socket.local_addr());
    let far = free().expect("a port");
    let links = [
        [format!("{group}/consumer"), format!("{group}/sensor"), "consumer".to_owned()],
        [format!("udp://{far}"), "udp://127.0.0.1:0".to_owned(), far.to_string()],
    ];
    let sum: u64 = (0..3000).map(|number| number & 0xFF).sum();
    for [far, near, peer] in &links {
        let pushing = start(&sensor, &[near, peer, "3000"]);
        let read = start(&consumer, &[far]).wait_with_output().expect("it ends");
        let pushed = pushing.wait_with_output().expect("it ends");
        assert!(pushed.status.success(), "{}", String::from_utf8_lossy(&pushed.stderr));
        let said = String::from_utf8_lossy(&read.stdout).into_owned();
        let expected = format!("3000 records, sum of their first bytes {sum}\n");
        assert_eq!(said, expected, "{}", String::from_utf8_lossy(&read.stderr));
    }
}

#[test]
fn one_c_program_computes_the_same_on_every_link_and_repeats_virtual_time() {
    let scratch = tempfile::tempdir().expect("a scratch folder");
    let program = scratch.path().join("one_program");
    compile("cc", "one_program.c", &program, "libfluxline_c.so");
    let run = |urls: &[String]| {
        let urls: Vec<&str> = urls.iter().map(String::as_str).collect();
        let ended = start(&program, &urls).wait_with_output().expect("it ends");
        let errors = String::from_utf8_lossy(&ended.stderr).into_owned();
        assert!(ended.status.success(), "{urls:?}: {errors}");
        String::from_utf8(ended.stdout).expect("UTF-8")
    };
    let total = |text: &str| text.lines().last().unwrap_or_default().to_owned();
    let group = format!("test-c-one-{}", std::process::id());
    let names = ["a", "b", "c"];
    let on_shm = run(&names.map(|name| format!("shm://{group}/{name}")));
    let sockets = names.map(|_| std::net::UdpSocket::bind("127.0.0.1:0").expect("a port"));
    let addresses = sockets.each_ref().map(|of| of.local_addr().expect("an address"));
    drop(sockets);
    let on_udp = run(&addresses.map(|address| format!("udp://{address}")));
    let simulated = names.map(|name| format!("sim:sci/{group}/{name}?nodes=3&seed=7"));
    let (first, second) = (run(&simulated), run(&simulated));
    assert!(total(&on_shm).starts_with("total "), "{on_shm}");
    assert_eq!([total(&on_udp), total(&first)], [total(&on_shm), total(&on_shm)]);
    assert_eq!(first, second, "virtual time repeats");
}

#[test]
fn a_c_program_runs_an_acquisition_and_gets_its_mistakes_as_sentences() {
    let scratch = tempfile::tempdir().expect("a scratch folder");
    let program = scratch.path().join("embedded_run");
    compile("cc", "embedded_run.c", &program, "libfluxline_c.so");
    let run = |arguments: &[&str]| {
        let mut command = Command::new(&program);
        let ended = command.args(arguments).current_dir(scratch.path()).output();
        ended.expect("it starts")
    };
    let ended = run(&[]);
    let (out, errors) =
        (String::from_utf8_lossy(&ended.stdout), String::from_utf8_lossy(&ended.stderr));
    assert!(ended.status.success(), "{out}{errors}");
    let folder = out.lines().last().and_then(|line| line.strip_prefix("data in "));
    let folder = scratch.path().join(folder.expect("a run folder"));
    assert!(folder.join("run.json").exists(), "{out}");
    // The sentence counts what the files have.
    assert!(out.lines().any(|line| line.starts_with("Received ")), "{out}");

    let wrong = scratch.path().join("wrong.toml");
    std::fs::write(&wrong, "name = \"x\"\n[[source]]\nname = \"a\"\nformatt = \"counter\"\n")
        .expect("written");
    let ended = run(&[wrong.to_str().expect("UTF-8")]);
    let errors = String::from_utf8_lossy(&ended.stderr);
    assert_eq!(ended.status.code(), Some(2));
    assert!(errors.contains("`formatt`") && errors.contains("wrong.toml:4:1"), "{errors}");
}

#[test]
fn a_c_function_filters_a_run() {
    let scratch = tempfile::tempdir().expect("a scratch folder");
    let program = scratch.path().join("filtered_run");
    compile("cc", "filtered_run.c", &program, "libfluxline_c.so");
    let experiment = scratch.path().join("boards.toml");
    let text = "[[source]]\nname = 'boards'\nformat = 'counter'\n[source.emulator]\nsources = 2\n\
                rate = 0.0\nlink = 'direct'\npackets = 400\npattern = 'zero'\n\
                [events]\nbuild = 'key'\nrequire = 2\n";
    std::fs::write(&experiment, text).expect("written");
    let path = experiment.to_str().expect("UTF-8");
    let run = |arguments: &[&str]| {
        let mut command = Command::new(&program);
        let ended = command.args(arguments).current_dir(scratch.path()).output();
        let ended = ended.expect("it starts");
        let errors = String::from_utf8_lossy(&ended.stderr).into_owned();
        (ended.status.code(), String::from_utf8_lossy(&ended.stdout).into_owned() + &errors)
    };
    let (status, out) = run(&[path, "0"]);
    assert_eq!(status, Some(0), "{out}");
    assert!(out.contains("8 recorded, 792 filtered"), "{out}");
    assert!(out.contains("the filter kept 4, rejected 396"), "{out}");
    let (status, out) = run(&[&format!("{path}.none"), "0"]);
    assert!(status == Some(2) && out.contains("cannot be read"), "{out}");
}

/// Waits for a program's end, which must come soon.
fn ended(child: &mut Child) -> std::process::ExitStatus {
    for _ in 0..1_000 {
        if let Some(status) = child.try_wait().expect("a child") {
            return status;
        }
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
    panic!("it hangs");
}

fn said(child: &mut Child) -> String {
    let mut text = String::new();
    let errors = child.stderr.as_mut().expect("piped");
    std::io::Read::read_to_string(errors, &mut text).expect("UTF-8");
    text
}

#[test]
fn a_c_producer_ends_when_its_consumer_is_killed_and_a_second_one_is_refused() {
    let scratch = tempfile::tempdir().expect("a scratch folder");
    let (producer, owner) = (scratch.path().join("producer"), scratch.path().join("owner"));
    compile("cc", "producer.c", &producer, "libfluxline_c.a");
    compile("c++", "owner.cpp", &owner, "libfluxline_c.so");
    let group = format!("shm://test-c-killed-{}", std::process::id());
    let url = |node: &str| format!("{group}/{node}");
    let mut reading = start(&owner, &[&url("owner"), "7", "4000000000"]);
    let mut ready = [0; 6];
    let out = reading.stdout.as_mut().expect("piped");
    std::io::Read::read_exact(out, &mut ready).expect("it says that it is ready");

    let mut pushing =
        ["one", "two"].map(|node| start(&producer, &[&url(node), "owner", "7", "4000000000"]));
    // One of them has the ring; the other one waits for its turn, in vain.
    let (mut first, mut second) = loop {
        let [one, two] = &mut pushing;
        let over = [one, two].map(|child| child.try_wait().expect("a child").is_some());
        std::thread::sleep(std::time::Duration::from_millis(5));
        let [one, two] = match over {
            [false, false] => continue,
            _ => pushing,
        };
        break if over[0] { (two, one) } else { (one, two) };
    };
    let text = said(&mut second);
    assert!(text.contains("the ring has a sender already"), "{text}");
    assert_eq!(ended(&mut second).code(), Some(1));

    reading.kill().expect("killed"); // SIGKILL
    reading.wait().expect("waited");
    assert_eq!(ended(&mut first).code(), Some(1));
    let text = "push: the push ring's consumer has gone; start it again, and open another sender\n";
    assert_eq!(said(&mut first), text);
}
