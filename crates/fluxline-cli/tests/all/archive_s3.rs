//! Archives on a server that speaks S3: `moto` (PyPI), on loopback. FLUXLINE_PYTHON names a Python
//! with it, as `./test.sh all` installs one; without one the tests are skipped, unless
//! FLUXLINE_REQUIRE_TOOLS=1.

use std::fs;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::archive::{Site, files};
use crate::support::{PATIENCE, fluxline, free_port, refused, text};

const SECRET: &str = "a-secret-of-this-test";

/// The server, with an empty bucket `lab`.
struct Server {
    python: String,
    address: String,
    child: Child,
}

impl Server {
    fn start() -> Option<Server> {
        let python = std::env::var("FLUXLINE_PYTHON").unwrap_or_else(|_| "python3".to_owned());
        let has = Command::new(&python).args(["-c", "import boto3, moto.server"]).output();
        if !has.is_ok_and(|output| output.status.success()) {
            let required = std::env::var("FLUXLINE_REQUIRE_TOOLS").is_ok_and(|it| it == "1");
            assert!(!required, "{python} has no moto[server], and FLUXLINE_REQUIRE_TOOLS is set");
            println!("skipped: {python} has no moto[server]; FLUXLINE_PYTHON names another");
            return None;
        }
        let port = free_port().to_string();
        let mut server = Command::new(&python);
        server.args(["-m", "moto.server", "-H", "127.0.0.1", "-p", &port]);
        let child = server.stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("it starts");
        let server = Server { python, address: format!("http://127.0.0.1:{port}"), child };
        let began = Instant::now();
        while std::net::TcpStream::connect(("127.0.0.1", port.parse().expect("a port"))).is_err() {
            assert!(began.elapsed() < PATIENCE, "the server does not answer");
            std::thread::sleep(Duration::from_millis(50));
        }
        server.script("s3.create_bucket(Bucket='lab')");
        Some(server)
    }

    /// Runs a line of Python with a client `s3`; returns what it prints.
    fn script(&self, line: &str) -> String {
        let text = format!("import boto3\ns3 = boto3.client('s3')\n{line}\n");
        let mut python = Command::new(&self.python);
        let output = self.with_key(python.args(["-c", &text])).output().expect("it starts");
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{errors}");
        String::from_utf8(output.stdout).expect("text")
    }

    fn with_key<'a>(&self, command: &'a mut Command) -> &'a mut Command {
        command
            .env("AWS_ENDPOINT_URL", &self.address)
            .env("AWS_ACCESS_KEY_ID", "test")
            .env("AWS_SECRET_ACCESS_KEY", SECRET)
            .env("AWS_DEFAULT_REGION", "us-east-1")
    }

    fn call(&self, arguments: &[&str]) -> Output {
        let mut program = fluxline();
        self.with_key(program.arg("--json").args(arguments)).output().expect("it starts")
    }

    fn call_json(&self, arguments: &[&str]) -> Value {
        let output = self.call(arguments);
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        serde_json::from_slice(&output.stdout).expect("one JSON document")
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn sentence(output: &Output, status: i32) -> String {
    let errors = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(status), "{errors}");
    let document: Value = serde_json::from_str(errors.lines().last().unwrap_or_default())
        .unwrap_or_else(|_| panic!("a sentence as JSON: {errors}"));
    document["error"].as_str().expect("a sentence").to_owned()
}

#[test]
fn a_run_comes_back_from_s3_in_parts_and_a_second_call_sends_nothing() {
    let Some(server) = Server::start() else { return };
    let site = Site::new();
    let run = site.run();
    // Three parts, and a name that a URL has to escape.
    let large: Vec<u8> = (0..20_u32 << 18).flat_map(u32::to_le_bytes).collect();
    fs::write(run.join("notes/ü & large?.bin"), large).expect("written");
    let before = files(&run);
    for to in ["s3://lab/2026/night", "s3://lab"] {
        let archive = ["archive", text(&run), "--to", to];
        let archived = server.call_json(&archive);
        assert_eq!(archived["target"], format!("{to}/0042"));
        assert_eq!(archived["sent"], before.len());
        assert_eq!(server.call_json(&archive)["sent"], 0);
        let at = format!("{to}/0042");
        assert_eq!(server.call_json(&["archive", "--verify", &at])["faults"], json!([]));
    }
    let archive = ["archive", text(&run), "--to", "s3://lab", "--remove-local"];
    server.call_json(&archive);
    assert!(files(&run).len() < 3);
    let restore = ["archive", "--restore", "s3://lab/0042", "--to", text(&run)];
    server.call_json(&restore);
    assert_eq!(files(&run), before);
    for name in ["archive.jsonl", "archive.json"] {
        let journal = fs::read_to_string(run.join(name)).expect("text");
        assert!(!journal.contains(SECRET) && !journal.contains("test\""), "{journal}");
    }
}

#[test]
fn a_bucket_with_other_content_or_damage_is_refused() {
    let Some(server) = Server::start() else { return };
    let site = Site::new();
    let run = site.run();
    let before = files(&run);
    server.script("s3.put_object(Bucket='lab', Key='a/0042/thesis.tex', Body=b'my only copy')");
    let archive = ["archive", text(&run), "--to", "s3://lab/a", "--remove-local"];
    let words = sentence(&server.call(&archive), 3);
    assert!(words.contains("thesis.tex"), "{words}");
    // A longer name beside the run's is not in its folder.
    server.script("s3.put_object(Bucket='lab', Key='b/00421/x', Body=b'')");
    let archive = ["archive", text(&run), "--to", "s3://lab/b"];
    server.call_json(&archive);
    server.script("s3.put_object(Bucket='lab', Key='b/0042/run.json', Body=b'{}')");
    let words = sentence(&server.call(&[&archive[..], &["--remove-local"]].concat()), 8);
    assert!(words.contains("run.json has 2 of"), "{words}");
    let words = sentence(&server.call(&["archive", "--verify", "s3://lab/b/0042"]), 8);
    assert!(words.contains("1 of"), "{words}");
    let words = sentence(&server.call(&["archive", text(&run), "--to", "s3://none/c"]), 1);
    assert!(words.contains("s3://none/c/0042"), "{words}");
    assert_eq!(files(&run), before);
}

#[test]
fn a_server_that_is_gone_is_a_sentence_and_the_next_call_goes_on() {
    let Some(mut server) = Server::start() else { return };
    let site = Site::new();
    let run = site.run();
    let to = ["archive", text(&run), "--to", "s3://lab/a"];
    let (old, nobody) = (server.address.clone(), format!("http://127.0.0.1:{}", free_port()));
    server.address = nobody;
    let mut program = fluxline();
    let output = server.with_key(program.args(to)).output().expect("it starts");
    let words = refused(&output, 1);
    assert!(words.contains("does not answer"), "{words}");
    assert!(!words.contains(SECRET), "{words}");
    server.address = old;
    server.call_json(&to);
    assert!(Path::new(&run).join("archive.json").exists());
}
