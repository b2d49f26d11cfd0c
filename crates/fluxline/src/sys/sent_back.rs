//! The error queue of a UDP socket: frames that a host sent back, because no program receives
//! there.
//!
//! Source: ip(7) and ipv6(7), "IP_RECVERR"; recv(2), "MSG_ERRQUEUE"; <linux/errqueue.h>.

use std::io;
use std::net::SocketAddr;
use std::os::fd::AsRawFd;

use libc::c_int;

use super::socket::{ADDRESS_BYTES, CONTROL_HEAD_BYTES, Socket, empty_headers, parse_address};

/// Room for `struct sock_extended_err` with the sender of the ICMP message, and for the data of a
/// received message \[byte\].
const CONTROL_BYTES: usize = 160;
/// `SO_EE_ORIGIN_ICMP` and `SO_EE_ORIGIN_ICMP6`: the error came from another host.
const FROM_HOSTS: [u8; 2] = [2, 3];

/// An entry of the error queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SentBack {
    /// The destination of the frame.
    pub(crate) to: Option<SocketAddr>,
    /// The host there says that no program has the port.
    pub(crate) no_program: bool,
}

#[repr(align(8))]
struct Control([u8; CONTROL_BYTES]);

impl Socket {
    /// Switches the error queue on.
    pub(crate) fn report_sent_back(&self, is_v6: bool) -> io::Result<()> {
        let (level, name) = match is_v6 {
            true => (libc::IPPROTO_IPV6, libc::IPV6_RECVERR),
            false => (libc::IPPROTO_IP, libc::IP_RECVERR),
        };
        self.set_bytes(level, name, &1_i32.to_ne_bytes())
    }

    /// Takes the next entry of the error queue, without waiting; `None`: it is empty.
    pub(crate) fn next_sent_back(&self) -> Option<SentBack> {
        let (mut address, mut control) = ([0; ADDRESS_BYTES], Control([0; CONTROL_BYTES]));
        let (bytes, controls) = self.receive_error(&mut address, &mut control).ok()?;
        let entry = &control.0[..controls.min(CONTROL_BYTES)];
        Some(SentBack {
            to: parse_address(&address[..bytes.min(ADDRESS_BYTES)]),
            no_program: says_no_program(entry),
        })
    }

    /// Returns the lengths of address and control data \[byte\].
    fn receive_error(
        &self,
        address: &mut [u8; ADDRESS_BYTES],
        control: &mut Control,
    ) -> io::Result<(usize, usize)> {
        let [mut header] = empty_headers::<1>().map(|message| message.msg_hdr);
        header.msg_name = address.as_mut_ptr().cast();
        header.msg_namelen = ADDRESS_BYTES as u32;
        header.msg_control = control.0.as_mut_ptr().cast();
        header.msg_controllen = CONTROL_BYTES;
        let flags = libc::MSG_ERRQUEUE | libc::MSG_DONTWAIT;
        // SAFETY: the header points to an address and to control room that live until the end of
        // this function, each with its own length, and to no buffer for the frame.
        let received =
            unsafe { libc::recvmsg(self.descriptor.as_raw_fd(), &raw mut header, flags) };
        match received {
            -1 => Err(io::Error::last_os_error()),
            _ => Ok((header.msg_namelen as usize, header.msg_controllen)),
        }
    }
}

/// Looks through the control data of an entry for `struct sock_extended_err`. Other data, such as
/// the traffic class of the frame, may come before it.
fn says_no_program(mut control: &[u8]) -> bool {
    while control.len() >= CONTROL_HEAD_BYTES {
        let bytes = word(control, 0) as usize;
        if bytes < CONTROL_HEAD_BYTES || bytes > control.len() {
            return false;
        }
        let kind = (word(control, 8) as c_int, word(control, 12) as c_int);
        let reports =
            [(libc::IPPROTO_IP, libc::IP_RECVERR), (libc::IPPROTO_IPV6, libc::IPV6_RECVERR)];
        if reports.contains(&kind) {
            let report = &control[CONTROL_HEAD_BYTES..bytes];
            let origin = report.get(4).copied().unwrap_or(0);
            return FROM_HOSTS.contains(&origin) && word(report, 0) == libc::ECONNREFUSED as u32;
        }
        control = control.get(bytes.next_multiple_of(8)..).unwrap_or(&[]);
    }
    false
}

/// Returns the word at an offset; 0 behind the end. Lengths are words of 64 bits with a low half
/// first, as on all machines that this runs on.
fn word(bytes: &[u8], at: usize) -> u32 {
    let word = bytes.get(at..at + 4).and_then(|bytes| bytes.try_into().ok());
    word.map_or(0, u32::from_ne_bytes)
}

#[cfg(test)]
mod tests {
    use std::net::{IpAddr, UdpSocket};
    use std::time::{Duration, Instant};

    use super::*;
    use crate::sys::socket::Flag;

    #[test]
    fn a_frame_to_a_port_without_a_program_is_sent_back_with_its_destination() {
        let free = UdpSocket::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        let socket = Socket::new(IpAddr::from([127, 0, 0, 1])).unwrap();
        for more in [Flag::ReportTrafficClassV4, Flag::ReportDestinationV4, Flag::DropCounter] {
            socket.set(more, 1).unwrap();
        }
        socket.bind("127.0.0.1:0".parse().unwrap()).unwrap();
        socket.report_sent_back(false).unwrap();
        assert_eq!(socket.next_sent_back(), None);
        socket.send(&[&[b"anybody there?"]], Some(free)).unwrap();
        let began = Instant::now();
        let found = loop {
            if let Some(found) = socket.next_sent_back() {
                break found;
            }
            assert!(began.elapsed() < Duration::from_secs(300), "nothing came back");
            std::thread::sleep(Duration::from_millis(1));
        };
        assert_eq!(found, SentBack { to: Some(free), no_program: true });
        assert_eq!(socket.next_sent_back(), None);
    }

    #[test]
    fn another_report_is_not_that_of_an_absent_program() {
        let mut control = [0; 32];
        control[0] = 32;
        control[8..12].copy_from_slice(&libc::IPPROTO_IP.to_ne_bytes());
        control[12..16].copy_from_slice(&libc::IP_RECVERR.to_ne_bytes());
        control[16..20].copy_from_slice(&libc::ECONNREFUSED.to_ne_bytes());
        control[20] = 2;
        assert!(says_no_program(&control));
        control[20] = 1; // of this host's own stack
        assert!(!says_no_program(&control));
        control[20] = 2;
        control[16..20].copy_from_slice(&libc::EHOSTUNREACH.to_ne_bytes());
        assert!(!says_no_program(&control));
        (0..control.len()).for_each(|cut| assert!(!says_no_program(&control[..cut])));
    }
}
