//! Hosts to which a response must not lead a client: this machine and private networks, in every
//! spelling.

/// Returns spellings of addresses outside of the public internet: private, link-local, shared and
/// reserved addresses, those of metadata services, and the IPv6 forms of these IPv4 addresses.
///
/// Tests use a client with a proxy on loopback, so that a client that would contact such an address
/// only contacts the proxy. Each request to the proxy is a fault of the client.
#[must_use]
pub fn addresses() -> Vec<String> {
    [
        "10.0.0.1",
        "10.255.255.254",
        "172.16.0.1",
        "172.31.255.254",
        "192.168.0.1",
        "192.168.255.254",
        "169.254.169.254",
        "169.254.0.1",
        "100.64.0.1",
        "100.100.100.200",
        "0.0.0.0",
        "0.1.2.3",
        "127.0.0.1",
        "127.255.255.254",
        "192.0.0.192",
        "192.0.2.1",
        "198.18.0.1",
        "198.51.100.1",
        "203.0.113.1",
        "224.0.0.1",
        "240.0.0.1",
        "255.255.255.255",
        "2852039166",
        "0xa9fea9fe",
        "0xa9.0xfe.0xa9.0xfe",
        "0251.0376.0251.0376",
        "169.254.43518",
        "10.1",
        "0xa.1",
        "012.0.0.1",
        "167772161",
        "192.168.257",
        "[::]",
        "[::1]",
        "[fe80::1]",
        "[fec0::1]",
        "[fc00::1]",
        "[fd00:ec2::254]",
        "[ff02::1]",
        "[::ffff:10.0.0.1]",
        "[::ffff:a9fe:a9fe]",
        "[::10.0.0.1]",
        "[::ffff:0:10.0.0.1]",
        "[64:ff9b::10.0.0.1]",
        "[64:ff9b::a9fe:a9fe]",
        "[64:ff9b:1::10.0.0.1]",
        "[2002:a00:1::]",
        "[2002:a9fe:a9fe::1]",
        "[2001:0:a00:1::1]",
        "[2001:0:808:808::f5ff:fffe]",
        "[2001:db8::1]",
        "[100::1]",
        "[3fff::1]",
    ]
    .into_iter()
    .map(|host| format!("http://{host}/latest/meta-data/paper.pdf"))
    .collect()
}

/// Returns spellings of this machine's address with a port. A client must not send a request there.
#[must_use]
pub fn loopback(port: u16) -> Vec<String> {
    [
        "127.0.0.1",
        "127.1",
        "127.0.1",
        "2130706433",
        "0x7f000001",
        "0x7f.1",
        "0177.0.0.1",
        "017700000001",
        "127.0.0.2",
        "0.0.0.0",
        "0",
        "[::1]",
        "[::]",
        "[::ffff:127.0.0.1]",
        "[::ffff:7f00:1]",
        "[0:0:0:0:0:ffff:7f00:1]",
        "[::127.0.0.1]",
        "localhost",
        "LOCALHOST",
        "localhost.",
        "user:pass@127.0.0.1",
        "%31%32%37.0.0.1",
        "\u{ff11}\u{ff12}\u{ff17}.0.0.1",
        "\u{24db}ocalhost",
        "127\u{3002}0\u{3002}0\u{3002}1",
    ]
    .into_iter()
    .map(|host| format!("http://{host}:{port}/paper.pdf"))
    .collect()
}
