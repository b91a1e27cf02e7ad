//! The library is embedded in engines: few crates come with it, and nothing in it or them speaks to a network.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

/// Crates that the default tree may have, pagestamp itself counted.
const MOST_CRATES: usize = 18;

/// Crates that speak to networks, or run what does.
const NETWORKING: [&str; 40] = [
    "socket2",
    "mio",
    "tokio",
    "async-std",
    "async-io",
    "smol",
    "polling",
    "hyper",
    "hyper-util",
    "reqwest",
    "ureq",
    "isahc",
    "curl",
    "curl-sys",
    "attohttpc",
    "minreq",
    "native-tls",
    "openssl",
    "openssl-sys",
    "rustls",
    "s2n-tls",
    "quinn",
    "h2",
    "h3",
    "http",
    "tonic",
    "tower",
    "warp",
    "axum",
    "actix-web",
    "tungstenite",
    "zmq",
    "zmq-sys",
    "nng",
    "nanomsg",
    "libp2p",
    "hickory-resolver",
    "trust-dns-resolver",
    "if-addrs",
    "nix",
];

fn metadata(more: &[&str]) -> Value {
    let manifest = Path::new(env!("CARGO_MANIFEST_DIR")).join("Cargo.toml");
    let run = |offline: &[&str]| {
        let mut cargo = Command::new(env!("CARGO"));
        cargo
            .args(["metadata", "--format-version", "1", "--locked"])
            .args(offline)
            .args(more)
            .arg("--manifest-path")
            .arg(&manifest);
        cargo.output().unwrap()
    };
    let mut output = run(&["--offline"]);
    if !output.status.success() {
        output = run(&[]);
    }
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

fn host() -> String {
    let output = Command::new(std::env::var_os("RUSTC").unwrap_or("rustc".into())).arg("-vV").output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    text.lines().find_map(|line| line.strip_prefix("host: ")).unwrap().to_owned()
}

/// Names of the crates that the root needs to be built and run, itself included.
fn tree(metadata: &Value) -> BTreeSet<String> {
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    let list = |value: &Value| value.as_array().unwrap().clone();
    let names: BTreeMap<String, String> =
        list(&metadata["packages"]).iter().map(|p| (text(&p["id"]), text(&p["name"]))).collect();
    let nodes: BTreeMap<String, Vec<Value>> =
        list(&metadata["resolve"]["nodes"]).iter().map(|n| (text(&n["id"]), list(&n["deps"]))).collect();
    let mut seen = BTreeSet::new();
    let mut open = vec![text(&metadata["resolve"]["root"])];
    while let Some(id) = open.pop() {
        if !seen.insert(id.clone()) {
            continue;
        }
        let needed = |dep: &&Value| list(&dep["dep_kinds"]).iter().any(|kind| kind["kind"].as_str() != Some("dev"));
        open.extend(nodes[&id].iter().filter(needed).map(|dep| text(&dep["pkg"])));
    }
    // By id, so that two versions of one crate are two.
    seen.iter().map(|id| format!("{} {}", names[id], id.rsplit(['#', '@']).next().unwrap_or(id))).collect()
}

fn networking(tree: &BTreeSet<String>) -> Vec<&String> {
    tree.iter().filter(|id| id.split(' ').next().is_some_and(|name| NETWORKING.contains(&name))).collect()
}

#[test]
fn the_default_tree_has_few_crates() {
    let tree = tree(&metadata(&["--filter-platform", &host()]));
    assert!(tree.len() <= MOST_CRATES, "{} crates: {tree:#?}", tree.len());
    assert!(tree.iter().any(|id| id.starts_with("pagestamp ")));
    assert!(tree.iter().any(|id| id.starts_with("parking_lot_core ")), "indirect ones are counted");
    assert!(!tree.iter().any(|id| id.starts_with("proptest ")), "those of the tests are not");
}

#[test]
fn no_crate_of_the_tree_speaks_to_a_network() {
    // On every platform.
    let tree = tree(&metadata(&[]));
    assert!(networking(&tree).is_empty(), "{:?}", networking(&tree));
}

#[test]
fn a_planted_dependency_is_found() {
    let planted = r#"{
        "packages": [{"id": "r#pagestamp@0.1.0", "name": "pagestamp"}, {"id": "r#a@1.0.0", "name": "a"}, {"id": "r#mio@1.0.0", "name": "mio"},
                     {"id": "r#dev@1.0.0", "name": "dev"}],
        "resolve": {"root": "r#pagestamp@0.1.0", "nodes": [
            {"id": "r#pagestamp@0.1.0", "deps": [{"pkg": "r#a@1.0.0", "dep_kinds": [{"kind": "dev"}, {"kind": null}]},
                                                 {"pkg": "r#dev@1.0.0", "dep_kinds": [{"kind": "dev"}]}]},
            {"id": "r#a@1.0.0", "deps": [{"pkg": "r#mio@1.0.0", "dep_kinds": [{"kind": "build"}]}]},
            {"id": "r#mio@1.0.0", "deps": []}, {"id": "r#dev@1.0.0", "deps": []}]}
    }"#;
    let tree = tree(&serde_json::from_str(planted).unwrap());
    assert_eq!(tree.iter().map(String::as_str).collect::<Vec<_>>(), ["a 1.0.0", "mio 1.0.0", "pagestamp 0.1.0"]);
    assert_eq!(networking(&tree), ["mio 1.0.0"]);
}

/// Words that name nothing but networking, wherever they stand in code.
const NEVER: [&str; 26] = [
    "TcpStream",
    "TcpListener",
    "UdpSocket",
    "UnixStream",
    "UnixListener",
    "UnixDatagram",
    "ToSocketAddrs",
    "SocketAddr",
    "IpAddr",
    "Ipv4Addr",
    "Ipv6Addr",
    "socket",
    "socketpair",
    "sendto",
    "sendmsg",
    "sendmmsg",
    "recvfrom",
    "recvmsg",
    "recvmmsg",
    "accept4",
    "getaddrinfo",
    "gethostbyname",
    "getsockopt",
    "setsockopt",
    "sockaddr",
    "sockaddr_in",
];

/// Words that mean a socket when they are the C library's.
const NEVER_OF_LIBC: [&str; 8] = ["connect", "bind", "listen", "accept", "send", "recv", "shutdown", "syscall"];

/// The code of a source file: words and signs, without comments and strings.
fn code(source: &str) -> Vec<String> {
    let mut words: Vec<String> = Vec::new();
    let mut rest = source;
    while let Some(first) = rest.chars().next() {
        let skip = |from: &str, end: &str| from.find(end).map_or(from.len(), |at| at + end.len());
        let len = if rest.starts_with("//") {
            skip(rest, "\n")
        } else if rest.starts_with("/*") {
            skip(rest, "*/")
        } else if rest.starts_with("'\"'") {
            3
        } else if rest.starts_with("r#\"") {
            skip(rest, "\"#")
        } else if first == '"' {
            let mut escaped = false;
            let is_end = |c: char| {
                let ends = c == '"' && !escaped;
                escaped = c == '\\' && !escaped;
                ends
            };
            rest[1..].find(is_end).map_or(rest.len(), |at| at + 2)
        } else if first.is_alphanumeric() || first == '_' {
            let len = rest.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(rest.len());
            words.push(rest[..len].to_owned());
            len
        } else {
            if !first.is_whitespace() {
                words.push(first.to_string());
            }
            first.len_utf8()
        };
        rest = &rest[len..];
    }
    words
}

/// What a source file names of networking.
fn networking_in(source: &str) -> Vec<String> {
    let words = code(source);
    let mut found: Vec<String> = words.iter().filter(|word| NEVER.contains(&word.as_str())).cloned().collect();
    for (at, word) in words.iter().enumerate() {
        let path = |from: usize| words[..from].iter().rev().take(3).rev().map(String::as_str).collect::<Vec<_>>();
        if word == "net" && matches!(path(at)[..], ["std" | "core" | "unix" | "windows" | "linux", ":", ":"]) {
            found.push("net".to_owned());
        }
        // `use std::{net, ...}`: a list that opens after the name.
        if matches!(word.as_str(), "std" | "unix" | "libc") && words.get(at + 3).is_some_and(|w| w == "{") {
            let list = words[at + 4..].iter().take_while(|w| *w != ";");
            let bad = |w: &&String| if word == "libc" { NEVER_OF_LIBC.contains(&w.as_str()) } else { *w == "net" };
            found.extend(list.filter(bad).cloned());
        }
        // The one call by number: it opens a process, and libc has no name for it.
        let by_number = words[at + 1..].iter().take(5).map(String::as_str);
        if word == "syscall" && by_number.eq(["(", "libc", ":", ":", "SYS_pidfd_open"]) {
            continue;
        }
        if NEVER_OF_LIBC.contains(&word.as_str()) && matches!(path(at)[..], ["libc", ":", ":"]) {
            found.push(word.clone());
        }
        if word == "extern" && words[at..].iter().take(60).any(|w| NEVER_OF_LIBC.contains(&w.as_str())) {
            found.push("extern".to_owned());
        }
    }
    found
}

fn sources(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let (folders, files): (Vec<_>, Vec<_>) = entries.partition(|path| path.is_dir());
    let rust = files.into_iter().filter(|path| path.extension().is_some_and(|e| e == "rs"));
    rust.chain(folders.iter().flat_map(|folder| sources(folder))).collect()
}

#[test]
fn no_source_file_names_a_network() {
    let files = sources(&Path::new(env!("CARGO_MANIFEST_DIR")).join("src"));
    assert!(files.len() > 30, "the walk finds the sources");
    for file in files {
        let found = networking_in(&fs::read_to_string(&file).unwrap());
        assert!(found.is_empty(), "{}: {found:?}", file.display());
    }
}

#[test]
fn the_scan_finds_what_is_planted_and_nothing_in_comments() {
    for planted in [
        "use std::net::TcpStream;",
        "use std :: net;",
        "fn f() { let _ = std::net::lookup(); }",
        "use std::{fs, net};",
        "use std::os::unix::net::UnixStream;",
        "use std::os::unix::{fs, net};",
        "unsafe { libc::socket(1, 2, 3) }",
        "unsafe { libc::connect(fd, at, len) }",
        "use libc::{c_int, bind};",
        "let fd = unsafe { libc::syscall(41) };",
        "let fd = unsafe { libc::syscall(libc::SYS_socket, 1, 2, 3) };",
        "unsafe { getaddrinfo(a, b, c, d) }",
        "unsafe extern \"C\" { fn connect(fd: i32) -> i32; }",
        "\"a string\"; libc::recvfrom(0)",
        "/* why */ libc::recv(0)",
        "let quote = '\"'; libc::recv(0)",
        "let raw = r#\"a \" quote\"#; libc::recv(0)",
    ] {
        assert!(!networking_in(planted).is_empty(), "{planted}");
    }
    for innocent in [
        "// std::net::TcpStream",
        "/// sends to a socket\nfn f() {}",
        "/* libc::socket */",
        "let text = \"std::net \\\" libc::connect\";",
        "fn bind(&self) { self.send(); channel.recv() }",
        "use std::num::NonZeroU32;",
        "let net = gross - std;",
        "let fd = unsafe { libc::syscall(libc::SYS_pidfd_open, number, 0) };",
    ] {
        assert_eq!(networking_in(innocent), [""; 0], "{innocent}");
    }
}
