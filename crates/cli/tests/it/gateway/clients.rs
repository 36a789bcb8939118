//! Programs of other people: what curl gets through the gateway is what it gets from nginx; httpx
//! and requests download a list politely without knowing of any limit.

use std::process::Command;
use std::time::Duration;

use docstokg_origin_sim::{OriginScript, ScriptedReply};

use super::running::{GatewayProcess, curl};
use super::state;
use crate::servers::{Server, free_port, nginx};
use crate::support::Served;

/// What curl prints after a body: the status, and the fields that describe the body.
const FIELDS: &str = "\n%{http_code} %{content_type} %header{content-length} \
                      %header{content-range} %header{etag} %header{content-encoding}";

/// An nginx with a text, a large file, and compression.
fn real_origin(directory: &std::path::Path) -> Server {
    let www = directory.join("www");
    std::fs::create_dir(&www).expect("a directory");
    let lines: Vec<String> = (0..2_000).map(|line| format!("line {line}")).collect();
    let text = lines.join("\n");
    std::fs::write(www.join("text.txt"), text).expect("a file");
    let large: Vec<u8> = (0..5_000_000_u32)
        .map(|byte| (byte * 7 % 251) as u8)
        .collect();
    std::fs::write(www.join("large.bin"), large).expect("a file");
    std::fs::write(www.join("empty.txt"), "").expect("a file");
    let http = "if_modified_since before; gzip on; gzip_vary on; gzip_proxied any; gzip_types text/plain; types { text/plain txt; }";
    let port = free_port();
    let server = format!(
        "listen 127.0.0.1:{port};
         location /fresh/ {{ alias {}/; add_header Cache-Control max-age=600; }}",
        www.display()
    );
    nginx(directory, port, http, &server)
}

#[test]
fn curl_gets_from_the_gateway_what_it_gets_from_the_origin() {
    let directory = state();
    let server = real_origin(directory.path());
    let (port, state) = (server.port, directory.path().join("state"));
    let mapping = format!("h.example:80=127.0.0.1:{port}");
    let generous = "h.example:metadata=rates:1000/SECOND";
    let common = ["--connect-to", &mapping, "--rate", generous];
    let forward = GatewayProcess::start(&state, &common);
    let origin = ["--origin", "http://h.example", "--cache-mode", "shared"];
    let reverse = GatewayProcess::start(&state, &[&common[..], &origin].concat());
    let proxy = format!("http://{}", forward.address);
    let tag = curl(&[
        "-I",
        "-o",
        "/dev/null",
        "-w",
        "%header{etag}",
        &url(port, "text.txt"),
    ]);
    let tag = format!("If-None-Match: {}", String::from_utf8_lossy(&tag.stdout));
    let cases: [&[&str]; 12] = [
        &[],
        &["--head", "--output", "/dev/null"],
        &["--range", "0-99"],
        &["--range", "-50"],
        &["--range", "100-"],
        &["--range", "99999999-"],
        &["--header", &tag],
        &[
            "--header",
            "If-Modified-Since: Fri, 01 Jan 2100 00:00:00 GMT",
        ],
        &["--header", "If-Match: \"other\""],
        &["--header", "Accept-Encoding: gzip"],
        &["--compressed"],
        &["--request", "DELETE"],
    ];
    for file in [
        "text.txt",
        "large.bin",
        "empty.txt",
        "missing.txt",
        "fresh/text.txt",
    ] {
        for case in cases {
            // A range of nothing is nginx's 200, and a 416 by the RFC.
            if file == "empty.txt" && case.first() == Some(&"--range") {
                continue;
            }
            let get = |more: &[&str]| {
                let got = curl(&[case, &["--write-out", FIELDS], more].concat());
                (got.status.code(), got.stdout)
            };
            let direct = get(&[&url(port, file)]);
            let named = format!("http://h.example/{file}");
            let explicit = format!("http://{}/{named}", forward.address);
            let reversed = format!("http://{}/{file}", reverse.address);
            // Twice: the second may come from the cache.
            for _ in 0..2 {
                let proxied = ["--proxy", proxy.as_str(), &named];
                for more in [&proxied[..], &[&explicit], &[&reversed]] {
                    let through = get(more);
                    assert!(
                        is_same(case, &direct, &through),
                        "{file} {case:?} {more:?}: {:?} instead of {:?}",
                        tail(&through.1),
                        tail(&direct.1)
                    );
                }
            }
        }
    }
}

fn url(port: u16, file: &str) -> String {
    format!("http://127.0.0.1:{port}/{file}")
}

type Got = (Option<i32>, Vec<u8>);

/// Compares what curl got. A stored body has a length that a chunked one has not, and the cache's
/// refusal of a range has no page.
fn is_same(case: &[&str], direct: &Got, through: &Got) -> bool {
    let is_compressed = case
        .iter()
        .any(|part| part.to_lowercase().contains("compressed"))
        || case.iter().any(|part| part.contains("gzip"));
    if direct == through {
        return true;
    }
    let split = |got: &Got| {
        let end = got.1.iter().rposition(|byte| *byte == b'\n').unwrap_or(0);
        let fields = String::from_utf8_lossy(&got.1[end..]).into_owned();
        let status = fields.trim().split(' ').next().map(str::to_owned);
        (got.0, got.1[..end].to_vec(), status)
    };
    let (direct, through) = (split(direct), split(through));
    let is_refusal = direct.2.as_deref() == Some("416");
    (is_refusal && direct.2 == through.2) || (is_compressed && direct == through)
}

fn tail(bytes: &[u8]) -> String {
    let from = bytes.len().saturating_sub(160);
    String::from_utf8_lossy(&bytes[from..]).into_owned()
}

/// Downloads a list with sixteen tasks. What is refused for now is asked again when the answer
/// says; that is all the program knows of limits.
const HTTPX: &str = "
import asyncio, sys, httpx
proxy, scheme = sys.argv[1:3]
async def main():
    limits = httpx.Limits(max_connections=16)
    transport = httpx.AsyncHTTPTransport(proxy=httpx.Proxy(proxy), limits=limits)
    async with httpx.AsyncClient(mounts={'http://': transport}, timeout=120) as client:
        queue = list(range(100))
        async def task():
            while queue:
                number = queue.pop()
                while True:
                    answer = await client.get(f'{scheme}://h.example/{number}')
                    if answer.status_code not in (429, 503): break
                    await asyncio.sleep(float(answer.headers['retry-after']))
                assert (answer.status_code, answer.text) == (200, f'/{number}'), answer
        await asyncio.gather(*(task() for _ in range(16)))
asyncio.run(main())
";

const REQUESTS: &str = "
import sys, time, requests
from concurrent.futures import ThreadPoolExecutor
proxy, scheme = sys.argv[1:3]
session = requests.Session()
session.proxies = {'http': proxy}
def get(number):
    while True:
        answer = session.get(f'{scheme}://h.example/{number}', timeout=120)
        if answer.status_code not in (429, 503): break
        time.sleep(float(answer.headers['retry-after']))
    assert (answer.status_code, answer.text) == (200, f'/{number}'), answer
with ThreadPoolExecutor(16) as pool: list(pool.map(get, range(100)))
";

/// Runs a script through a gateway; panics with what it says if it fails.
fn run_script(script: &str, gateway: &GatewayProcess) {
    let proxy = format!("http://{}", gateway.address);
    let ran = Command::new("/usr/bin/python3")
        .args(["-c", script, &proxy, "http"])
        .output()
        .expect("python3");
    let said = String::from_utf8_lossy(&ran.stderr).into_owned();
    assert!(ran.status.success(), "{said}");
}

/// Refusals of requests that a busy machine brings together. Sixteen tasks that wait for nothing are
/// refused hundreds of times.
const FEW_REFUSALS: usize = 50;

const RATE: [&str; 2] = ["--rate", "h.example:metadata=rates:10/SECOND"];

fn plain_list(script: &str) {
    let served = Served::start(
        OriginScript::new("h.example")
            .limit("10/SECOND")
            .handler(|arrival, _| ScriptedReply::ok(arrival.path.clone())),
    );
    let directory = state();
    let mapping = format!("h.example:80={}", served.address);
    let connect = ["--connect-to", &mapping];
    run_script(
        script,
        &GatewayProcess::start(directory.path(), &[connect, RATE].concat()),
    );
    let ledger = served.web.ledger();
    let refused = ledger.statuses().get(&429).copied().unwrap_or(0);
    assert!(refused <= FEW_REFUSALS, "{:?}", ledger.statuses());
    assert_eq!(ledger.len() - refused, 100, "each was served once");
    // What the machine holds up for less than a second comes together with the next second's.
    let second = Duration::from_secs(1);
    (ledger.no_window_exceeded("h.example", 20, second)).expect("politeness");
}

/// The same with a real nginx behind https that refuses what is faster, and `--upgrade-https`.
fn upgraded_list(script: &str) {
    let directory = state();
    let at = |name: &str| directory.path().join(name).display().to_string();
    std::fs::create_dir(at("www")).expect("a directory");
    for number in 0..100 {
        std::fs::write(at(&format!("www/{number}")), format!("/{number}")).expect("a file");
    }
    let certified =
        rcgen::generate_simple_self_signed(vec!["h.example".to_owned()]).expect("a certificate");
    std::fs::write(at("cert.pem"), certified.cert.pem()).expect("a file");
    std::fs::write(at("key.pem"), certified.signing_key.serialize_pem()).expect("a file");
    let port = free_port();
    let http = format!(
        "log_format t '$status'; access_log {} t;
         limit_req_zone $binary_remote_addr zone=r:1m rate=10r/s;",
        at("access.log")
    );
    let server = format!(
        "listen 127.0.0.1:{port} ssl; ssl_certificate {}; ssl_certificate_key {};
         default_type text/plain; limit_req zone=r burst=3 nodelay; limit_req_status 429;",
        at("cert.pem"),
        at("key.pem")
    );
    let _server = nginx(directory.path(), port, &http, &server);
    let (mapping, certificate) = (format!("h.example:443=127.0.0.1:{port}"), at("cert.pem"));
    let secure = ["--upgrade-https", "--cacert", &certificate];
    let connect = ["--connect-to", &mapping];
    let state = directory.path().join("state");
    let arguments = [&secure[..], &connect, &RATE].concat();
    run_script(script, &GatewayProcess::start(&state, &arguments));
    let log = std::fs::read_to_string(at("access.log")).expect("the log");
    assert_eq!(log.lines().filter(|status| *status == "200").count(), 100);
    let refused = log.lines().filter(|status| *status == "429").count();
    assert!(refused <= FEW_REFUSALS, "{refused} refusals by nginx");
}

#[test]
fn httpx_and_requests_download_a_list_within_the_limits() {
    std::thread::scope(|scope| {
        for script in [HTTPX, REQUESTS] {
            scope.spawn(|| plain_list(script));
            scope.spawn(|| upgraded_list(script));
        }
    });
}
