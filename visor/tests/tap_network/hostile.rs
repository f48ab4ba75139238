//! A hostile network: malformed frames, and a device that is removed. The workflow continues or gets an error.

use crate::net::{FAR4, Net, PATIENCE};
use serde_json::json;
use std::io::Read;
use std::net::{SocketAddr, TcpListener, TcpStream, UdpSocket};

/// Sends frames through a device as they are.
fn send_raw(device: &str, frames: impl Iterator<Item = Vec<u8>>) {
    let name = std::ffi::CString::new(device).expect("no zero");
    // SAFETY: a name that ends with a zero; plain data; a socket that is closed below; an address and bytes of the lengths
    // that are given.
    unsafe {
        let index = libc::if_nametoindex(name.as_ptr());
        assert_ne!(index, 0, "{device} is there");
        let socket = libc::socket(libc::AF_PACKET, libc::SOCK_RAW, 0);
        assert!(socket >= 0, "{}", std::io::Error::last_os_error());
        let mut to: libc::sockaddr_ll = std::mem::zeroed();
        to.sll_family = libc::AF_PACKET as u16;
        to.sll_ifindex = index as i32;
        for frame in frames {
            let len = size_of::<libc::sockaddr_ll>() as u32;
            // A frame that the kernel itself refuses (shorter than a header) has no effect.
            libc::sendto(socket, frame.as_ptr().cast(), frame.len(), 0, (&raw const to).cast(), len);
        }
        libc::close(socket);
    }
}

#[test]
#[ignore = "needs root and /dev/net/tun: cargo xtask test --network"]
fn malformed_frames_are_harmless() {
    let net = Net::new();
    let mut run = net.run("network-probe", json!({ "questions": [{ "serve": ["0.0.0.0:80", 1] }] }));
    assert_eq!(run.line(), "0.0.0.0:80");
    let (device, _) = net.devices().remove(0);
    let mut state = 1u64;
    let mut random = move || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state
    };
    let frames = (0..20_000).map(move |number| {
        let mut frame: Vec<u8> = (0..random() % 300).map(|_| random() as u8).collect();
        // Most are addressed to the workflow and say that they are IP, so that more of them is looked at.
        if number % 8 != 0 && frame.len() > 40 {
            frame[..6].copy_from_slice(&[0x02, b'm', b'h', 0, 0, 0]);
            let kind: [u8; 3] = [[0x08, 0, 0x45], [0x86, 0xdd, 0x60], [0x08, 6, 0]][number % 3];
            frame[12..15].copy_from_slice(&kind);
            frame[23] = [6, 17, 1, 58][number % 4];
        }
        frame
    });
    net.inside(move || send_raw(&device, frames));
    // It still serves.
    let server = SocketAddr::new(net.workflow4(), 80);
    let answer = net.inside(move || {
        let mut text = String::new();
        TcpStream::connect(server).expect("a connection").read_to_string(&mut text).expect("an answer");
        text
    });
    assert_eq!(answer, "0");
    run.end();
}

#[test]
#[ignore = "needs root and /dev/net/tun: cargo xtask test --network"]
fn a_removed_device_is_reported() {
    let net = Net::new();
    let mut run =
        net.run("network-probe", json!({ "questions": [{ "serve": ["0.0.0.0:80", 1] }, { "listen": "0.0.0.0:81" }] }));
    assert_eq!(run.line(), "0.0.0.0:80");
    net.remove(&net.devices()[0].0);
    assert!(run.line().starts_with("NetworkDown: "));
    assert!(run.line().starts_with("NetworkDown: "));
    run.end();
}

#[test]
#[ignore = "needs root and /dev/net/tun: cargo xtask test --network"]
fn everything_fails_once_the_device_is_gone_and_the_function_goes_on() {
    let net = Net::new();
    let server = net.inside(|| TcpListener::bind((FAR4, 0)).expect("a server"));
    let at = server.local_addr().expect("its address").to_string();
    let mut run = net.run("network-probe", json!({ "questions": [{ "outlive": at }] }));
    let _client = run.accept(&server);
    assert_eq!(run.line(), "ready");
    net.remove(&net.devices()[0].0);
    for what in ["recv_from", "recv", "send_to", "write", "read", "accept", "connect", "bind", "lookup"] {
        assert_eq!(run.line(), format!("{what}: Err(NetworkDown)"));
    }
    assert_eq!(run.line(), "it goes on");
    run.end();
}

#[test]
#[ignore = "needs root and /dev/net/tun: cargo xtask test --network"]
fn a_lookup_fails_when_the_device_is_removed() {
    let net = Net::new();
    // It receives, and does not answer.
    let silent = net.inside(|| UdpSocket::bind((FAR4, 53)).expect("a resolver"));
    let mut run = net.run("network-probe", json!({ "questions": [{ "resolve": "www.test" }] }));
    silent.set_read_timeout(Some(PATIENCE)).expect("a timeout");
    silent.recv(&mut [0; 512]).expect("a question");
    net.remove(&net.devices()[0].0);
    assert!(run.line().starts_with("NetworkDown: "));
    run.end();
}
