//! The published in-database average: a Lua script over JSON texts.

use epochcost_kernels::codec::{decode_f32, encode_json};
use redis_protocol::resp2::types::BytesFrame;

use super::record::Lua;
use super::server::Server;
use super::time;

/// What the published SPIRT function does with a list of gradients: decode,
/// add, divide, encode. It is run where it lies, without sending its result.
const SCRIPT: &str = "
local texts = redis.call('LRANGE', KEYS[1], 0, ARGV[1] - 1)
local sum = cjson.decode(texts[1])
for i = 2, #texts do
    local values = cjson.decode(texts[i])
    for j = 1, #sum do sum[j] = sum[j] + values[j] end
end
for j = 1, #sum do sum[j] = sum[j] / #texts end
return #cjson.encode(sum)";

/// One gradient, and two: their difference is what each further one costs.
pub fn measure(server: &Server, gradient: &[u8]) -> Lua {
    let text = encode_json(&decode_f32(gradient).unwrap()).unwrap();
    let mut client = server.client();
    for _ in 0..2 {
        client.call(&[b"RPUSH", b"texts".as_slice(), &text]);
    }
    let mut run = |count: &str| {
        let milliseconds = time(1, || {
            let length = client.call(&["EVAL", SCRIPT, "1", "texts", count]);
            assert!(matches!(length, BytesFrame::Integer(_)), "{length:?}");
        });
        milliseconds[0]
    };
    Lua {
        text_mb: text.len() as f64 / 1e6,
        one_gradient_ms: run("1"),
        two_gradients_ms: run("2"),
    }
}
