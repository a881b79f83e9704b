//! `--fetch` against a server on loopback that cuts connections, sends wrong files, or
//! stands in for a proxy.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use epochcost::download::{DownloadError, Event, Patience, Request, fetch};
use epochcost_datasets::{Checksum, Download, PublishedFile};
use epochcost_spec::hash::sha256_hex;
use flate2::Compression;
use flate2::write::GzEncoder;

use crate::support::{Scene, holds};

/// What a server does with a request.
#[derive(Clone, Debug)]
enum Answer {
    /// Sends this, from the byte that is asked for.
    Whole(Vec<u8>),
    /// Sends so many bytes of it, and cuts the connection.
    Cut(Vec<u8>, usize),
    /// Sends this without regard to the byte that is asked for.
    FromTheStart(Vec<u8>),
    /// Answers with this status.
    Status(&'static str),
}

/// First line and range of a request.
type Asked = (String, Option<usize>);

/// A server that gives one answer after another, the last again and again.
struct Server {
    address: String,
    seen: Arc<Mutex<Vec<Asked>>>,
}

impl Server {
    fn start(answers: Vec<Answer>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = format!("http://{}", listener.local_addr().unwrap());
        let seen = Arc::new(Mutex::new(Vec::new()));
        let log = seen.clone();
        std::thread::spawn(move || {
            for (count, stream) in listener.incoming().enumerate() {
                let answer = &answers[count.min(answers.len() - 1)];
                // A client that goes away is one of the cases.
                let _ = serve(stream.unwrap(), answer, &log);
            }
        });
        Self { address, seen }
    }

    fn seen(&self) -> Vec<Asked> {
        self.seen.lock().unwrap().clone()
    }

    fn ranges(&self) -> Vec<Option<usize>> {
        self.seen().into_iter().map(|(_, range)| range).collect()
    }
}

fn serve(mut stream: TcpStream, answer: &Answer, log: &Mutex<Vec<Asked>>) -> std::io::Result<()> {
    let lines = BufReader::new(&stream).lines().map_while(Result::ok);
    let head: Vec<String> = lines.take_while(|line| !line.is_empty()).collect();
    let range = head.iter().find_map(|line| {
        let line = line.to_lowercase();
        let from = line.strip_prefix("range: bytes=")?;
        from.trim_end_matches('-').parse().ok()
    });
    let first = head.first().cloned().unwrap_or_default();
    log.lock().unwrap().push((first, range));
    let (body, sent, from) = match answer {
        Answer::Status(_) => (&[][..], 0, None),
        Answer::Whole(body) => (&body[..], body.len(), range),
        Answer::Cut(body, bytes) => (&body[..], *bytes, range),
        Answer::FromTheStart(body) => (&body[..], body.len(), None),
    };
    let (whole, start) = (body.len(), from.unwrap_or(0));
    let rest = body.get(start..).unwrap_or_default();
    let status = match (answer, from) {
        (Answer::Status(status), _) => (*status).to_owned(),
        _ if rest.is_empty() => {
            format!("416 Range Not Satisfiable\r\ncontent-range: bytes */{whole}")
        }
        (_, Some(start)) => {
            let range = format!("{start}-{}/{whole}", whole - 1);
            format!("206 Partial Content\r\ncontent-range: bytes {range}")
        }
        (_, None) => "200 OK".to_owned(),
    };
    let length = rest.len();
    write!(
        stream,
        "HTTP/1.1 {status}\r\ncontent-length: {length}\r\nconnection: close\r\n\r\n"
    )?;
    stream.write_all(&rest[..sent.min(length)])?;
    stream.flush()
}

/// Two files that do not compress to nothing, and the archive of both.
struct Set {
    contents: [(&'static str, Vec<u8>); 2],
    files: &'static [PublishedFile],
    downloads: &'static [Download],
}

impl Set {
    fn new() -> Self {
        let noise = |seed: u64| -> Vec<u8> {
            let value = |index: u64| epochcost_kernels::hash::mix(seed, index) as u8;
            (0..20_000).map(value).collect()
        };
        let contents = [("one", noise(1)), ("two", noise(2))];
        let files = contents.iter().map(|(name, content)| PublishedFile {
            name,
            size_bytes: content.len() as u64,
            checksum: Checksum::Sha256(sha256_hex(content).into()),
        });
        let files: Vec<PublishedFile> = files.collect();
        Self {
            contents,
            files: files.leak(),
            downloads: &[Download { name: "set.tar.gz" }],
        }
    }

    /// The archive; `change` may change a file in it.
    fn archive(&self, change: impl Fn(&mut Vec<u8>)) -> Vec<u8> {
        let mut archive = tar::Builder::new(GzEncoder::new(Vec::new(), Compression::fast()));
        for (name, content) in &self.contents {
            let mut content = content.clone();
            if *name == "two" {
                change(&mut content);
            }
            let mut header = tar::Header::new_gnu();
            header.set_size(content.len() as u64);
            header.set_cksum();
            let appended = archive.append_data(&mut header, name, content.as_slice());
            appended.unwrap();
        }
        archive.into_inner().unwrap().finish().unwrap()
    }

    fn request(&self, directory: &Path, servers: &[&Server]) -> Request {
        let address = |server: &&Server| format!("{}/sets/", server.address);
        Request {
            downloads: self.downloads,
            files: self.files,
            mirrors: servers.iter().map(address).collect(),
            directory: directory.to_owned(),
            patience: Patience {
                attempts: 2,
                pause: Duration::from_millis(1),
                silence: Duration::from_secs(10),
            },
        }
    }

    fn assert_in(&self, directory: &Path) {
        for (name, content) in &self.contents {
            let found = fs::read(directory.join(name)).unwrap();
            assert!(found == *content, "{name}");
        }
        let count = fs::read_dir(directory).unwrap().count();
        assert_eq!(count, 2, "nothing else is left");
    }
}

/// Fetches, and returns what failed on the way.
fn fetched(request: &Request) -> (Result<(), DownloadError>, Vec<String>) {
    let failures = Mutex::new(Vec::new());
    let report = |event: Event<'_>| {
        if let Event::Failed(_, why) = event {
            failures.lock().unwrap().push(why.to_owned());
        }
    };
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let result = runtime.block_on(fetch(request, &report));
    (result, failures.into_inner().unwrap())
}

#[test]
fn a_cut_download_goes_on_and_a_wrong_one_is_asked_of_the_next_mirror() {
    let set = Set::new();
    let (right, wrong) = (set.archive(|_| ()), set.archive(|file| file[7] ^= 1));
    let first = Server::start(vec![Answer::Whole(wrong)]);
    let (cut, again) = (right.len() / 3, right.len() / 4);
    let second = Server::start(vec![
        Answer::Cut(right.clone(), cut),
        Answer::Cut(right.clone(), again),
        Answer::Whole(right.clone()),
    ]);
    let directory = tempfile::tempdir().unwrap();
    let request = set.request(directory.path(), &[&first, &second]);
    let (result, failures) = fetched(&request);
    result.unwrap();
    set.assert_in(directory.path());
    assert_eq!(failures.len(), 1, "{failures:?}");
    holds(&failures[0], &["SHA-256", "two"]);
    assert_eq!(first.ranges(), [None]);
    let ranges = [None, Some(cut), Some(cut + again)];
    assert_eq!(second.ranges(), ranges);
    assert_eq!(second.seen()[0].0, "GET /sets/set.tar.gz HTTP/1.1");

    // What is there and right is not fetched again.
    fetched(&request).0.unwrap();
    assert_eq!(second.seen().len(), 3);
    fs::write(directory.path().join("one"), "damaged").unwrap();
    let (result, _) = fetched(&set.request(directory.path(), &[&second]));
    result.unwrap();
    set.assert_in(directory.path());
}

#[test]
fn a_part_of_another_file_is_dropped() {
    let set = Set::new();
    let right = set.archive(|_| ());
    for (length, answer) in [
        // As long as the file, shorter, and longer; and a server that knows no ranges.
        (right.len(), Answer::Whole(right.clone())),
        (100, Answer::Whole(right.clone())),
        (right.len() + 9, Answer::Whole(right.clone())),
        (100, Answer::FromTheStart(right.clone())),
    ] {
        let server = Server::start(vec![answer]);
        let directory = tempfile::tempdir().unwrap();
        fs::write(directory.path().join(".set.tar.gz.part"), vec![7; length]).unwrap();
        let (result, _) = fetched(&set.request(directory.path(), &[&server]));
        result.unwrap();
        set.assert_in(directory.path());
    }
}

#[test]
fn every_mirror_that_failed_is_named_with_its_reason() {
    let set = Set::new();
    let right = set.archive(|_| ());
    let gone = Server::start(vec![Answer::Status("404 Not Found")]);
    let silent = Server::start(vec![Answer::Cut(right, 0)]);
    let directory = tempfile::tempdir().unwrap();
    let (result, _) = fetched(&set.request(directory.path(), &[&gone, &silent]));
    let message = result.unwrap_err().to_string();
    holds(&message, &[&gone.address, "404", &silent.address]);
    // What is not there is not asked for twice; what was cut is.
    assert_eq!((gone.seen().len(), silent.seen().len()), (1, 2));
}

#[test]
fn without_a_network_it_says_what_to_do() {
    let scene = Scene::empty();
    let free = TcpListener::bind("127.0.0.1:0").unwrap();
    let closed = format!("http://{}", free.local_addr().unwrap());
    drop(free);
    let gone = Server::start(vec![Answer::Status("404 Not Found")]);
    let files = ["cifar-10-binary.tar.gz", "data_batch_5.bin"];
    let not_found = ["404", "train-images-idx3-ubyte"];
    for (model, name, address, words) in [
        ("mobilenet", "cifar10", &closed, files),
        ("lenet5", "mnist", &gone.address, not_found),
    ] {
        let options = format!("--set model={model} --set 'dataset={{name: {name}}}'");
        let mut command = scene.command(&format!("check smoke --fetch --from {address} {options}"));
        let ended = scene.end(command.env("NO_PROXY", "*")).ends(5);
        let ended = ended.says(&words);
        ended.says(&["HTTPS_PROXY", "--from", "unpacked"]);
    }
    scene.run("check smoke --fetch --from ftp://x").ends(2);
}

#[test]
fn the_proxy_of_the_environment_is_asked() {
    let scene = Scene::empty();
    let proxy = Server::start(vec![Answer::Status("404 Not Found")]);
    let check = "check smoke --set 'dataset={name: mnist}' --fetch";
    let mut command = scene.command(&format!("{check} --from http://mirror.invalid/sets/"));
    command.env_remove("NO_PROXY").env_remove("no_proxy");
    command.env("HTTP_PROXY", &proxy.address);
    scene.end(command.env("http_proxy", &proxy.address)).ends(5);
    let asked = "GET http://mirror.invalid/sets/train-images-idx3-ubyte.gz HTTP/1.1";
    assert_eq!(proxy.seen()[0].0, asked);
}
