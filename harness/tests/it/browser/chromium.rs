//! Chromium, driven through the DevTools protocol over a pipe: messages are
//! JSON, each ends in a NUL. That needs no port, no driver and no WebSocket.

use std::io::{BufRead, BufReader, Write};
use std::path::PathBuf;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::Duration;

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use epochcost_testing::or_skip;
use serde_json::{Value, json};
use tempfile::TempDir;

/// Set to `required`, a missing browser is a failure.
const REQUIRED: &str = "EPOCHCOST_BROWSER";

const OPTIONS: &str = "--headless --no-sandbox --disable-gpu --disable-dev-shm-usage --disable-quic --no-first-run \
                       --disable-background-networking --disable-component-update --disable-sync \
                       --disable-extensions --hide-scrollbars --remote-debugging-pipe";

/// Longer than anything here takes on a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);

/// Chromium with one page.
pub struct Browser {
    child: Child,
    to: ChildStdin,
    from: Receiver<Value>,
    sent: u64,
    session: Option<String>,
    events: Vec<Value>,
    // Removed once the browser has ended.
    _profile: TempDir,
}

/// Starts it; none, with a message, where there is no Chromium and none is required.
pub fn start() -> Option<Browser> {
    let program = find().ok_or("no Chromium; to run it: apt-get install -y chromium");
    let is_required = std::env::var(REQUIRED).as_deref() == Ok("required");
    assert!(program.is_ok() || !is_required, "{program:?}");
    or_skip(program).map(Browser::of)
}

impl Browser {
    fn of(program: PathBuf) -> Self {
        let profile = tempfile::tempdir().unwrap();
        // The browser reads messages from descriptor 3 and writes to 4.
        let mut child = Command::new("sh")
            .args([
                "-c",
                "exec \"$@\" 3<&0 4>&1 </dev/null >/dev/null 2>&1",
                "sh",
            ])
            .arg(program)
            .args(OPTIONS.split(' '))
            .arg(format!("--user-data-dir={}", profile.path().display()))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let (to, stdout) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
        let (sender, from) = channel();
        thread::spawn(move || {
            for message in BufReader::new(stdout).split(0).map_while(Result::ok) {
                let message = serde_json::from_slice(&message).unwrap();
                if sender.send(message).is_err() {
                    break;
                }
            }
        });
        let mut browser = Self {
            child,
            to,
            from,
            sent: 0,
            session: None,
            events: Vec::new(),
            _profile: profile,
        };
        let target = browser.call("Target.createTarget", json!({"url": "about:blank"}));
        let attach = json!({"targetId": target["targetId"], "flatten": true});
        let session = browser.call("Target.attachToTarget", attach);
        browser.session = session["sessionId"].as_str().map(str::to_owned);
        for domain in ["Page", "Runtime", "Log", "Network", "DOM", "Accessibility"] {
            browser.call(&format!("{domain}.enable"), json!({}));
        }
        browser
    }

    /// Sends a command and waits for its answer.
    #[track_caller]
    pub fn call(&mut self, method: &str, parameters: Value) -> Value {
        self.sent += 1;
        let mut message = json!({"id": self.sent, "method": method, "params": parameters});
        if let Some(session) = &self.session {
            message["sessionId"] = session.as_str().into();
        }
        write!(self.to, "{message}\0").unwrap();
        self.to.flush().unwrap();
        let id = self.sent;
        let mut answer = self.wait(|message| message["id"] == id);
        assert!(answer.get("error").is_none(), "{method}: {answer}");
        answer["result"].take()
    }

    /// The next message that `is_it`; events before it are kept.
    #[track_caller]
    fn wait(&mut self, is_it: impl Fn(&Value) -> bool) -> Value {
        loop {
            let message = self.from.recv_timeout(PATIENCE).unwrap();
            if is_it(&message) {
                return message;
            }
            if message.get("method").is_some() {
                self.events.push(message);
            }
        }
    }

    /// Opens a page in a window of that width.
    #[track_caller]
    pub fn open_at(&mut self, width: u32, url: &str) {
        let size = json!({"width": width, "height": 1000, "deviceScaleFactor": 1, "mobile": false});
        self.call("Emulation.setDeviceMetricsOverride", size);
        self.open(url);
    }

    /// Opens a page and waits until it has loaded.
    #[track_caller]
    pub fn open(&mut self, url: &str) {
        // A change of the fragment alone would not load anything.
        self.navigate("about:blank");
        self.events.clear();
        self.navigate(url);
    }

    #[track_caller]
    fn navigate(&mut self, url: &str) {
        let answer = self.call("Page.navigate", json!({"url": url}));
        assert!(answer.get("errorText").is_none(), "{url}: {answer}");
        let has_loaded = |event: &Value| event["method"] == "Page.loadEventFired";
        if let Some(place) = self.events.iter().position(has_loaded) {
            self.events.remove(place);
        } else {
            self.wait(has_loaded);
        }
    }

    /// The value of an expression in the page.
    #[track_caller]
    pub fn value(&mut self, expression: &str) -> Value {
        let what = json!({"expression": expression, "returnByValue": true, "awaitPromise": true});
        let answer = self.call("Runtime.evaluate", what);
        let failed = answer.get("exceptionDetails");
        assert!(failed.is_none(), "{expression}: {failed:?}");
        answer["result"]["value"].clone()
    }

    /// The reader's preference, `light` or `dark`, and the medium, `screen` or `print`.
    pub fn prefer(&mut self, scheme: &str, medium: &str) {
        let features = json!([{"name": "prefers-color-scheme", "value": scheme}]);
        let media = json!({"media": medium, "features": features});
        self.call("Emulation.setEmulatedMedia", media);
    }

    /// A key, pressed and let go.
    pub fn press(&mut self, key: &str) {
        let (code, text) = match key {
            "Tab" => (9, ""),
            "Enter" => (13, "\r"),
            other => (32, other),
        };
        for (kind, text) in [("keyDown", text), ("keyUp", "")] {
            let event = json!({"type": kind, "key": key, "code": key, "text": text,
                               "windowsVirtualKeyCode": code});
            self.call("Input.dispatchKeyEvent", event);
        }
    }

    /// A click with the mouse in the middle of an element.
    #[track_caller]
    pub fn click(&mut self, selector: &str) {
        let place = self.value(&format!(
            "(() => {{ const e = document.querySelector({selector:?}); \
             e.scrollIntoView({{block: 'center', inline: 'center'}}); \
             const r = e.getBoundingClientRect(); \
             return [r.x + r.width / 2, r.y + r.height / 2]; }})()"
        ));
        for kind in ["mousePressed", "mouseReleased"] {
            let event = json!({"type": kind, "x": place[0], "y": place[1], "button": "left",
                               "clickCount": 1});
            self.call("Input.dispatchMouseEvent", event);
        }
    }

    /// Keeps a picture of the whole page.
    pub fn picture(&mut self, path: &PathBuf) {
        let how = json!({"format": "png", "captureBeyondViewport": true, "optimizeForSpeed": true});
        let answer = self.call("Page.captureScreenshot", how);
        let text = answer["data"].as_str().unwrap();
        std::fs::write(path, BASE64_STANDARD.decode(text).unwrap()).unwrap();
    }

    /// What the page complained of since it was opened, and every address but
    /// its own that it asked for.
    pub fn complaints(&self, url: &str) -> Vec<String> {
        let page = url.split('#').next();
        let complaint = |event: &Value| {
            let parameters = &event["params"];
            match event["method"].as_str()? {
                "Runtime.exceptionThrown" | "Runtime.consoleAPICalled" | "Log.entryAdded" => {
                    Some(event.to_string())
                }
                "Network.requestWillBeSent" => {
                    let asked = parameters["request"]["url"].as_str()?;
                    (Some(asked) != page).then(|| format!("asked for {asked}"))
                }
                _ => None,
            }
        };
        self.events.iter().filter_map(complaint).collect()
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn find() -> Option<PathBuf> {
    const NAMES: [&str; 4] = ["chromium", "chromium-browser", "google-chrome", "chrome"];
    let paths = std::env::var_os("PATH")?;
    std::env::split_paths(&paths)
        .flat_map(|directory| NAMES.map(|name| directory.join(name)))
        .find(|program| program.is_file())
}
