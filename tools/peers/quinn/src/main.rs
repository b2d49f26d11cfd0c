//! One stream of QUIC, as fast as it goes; both ends are this program.
//!
//! `peer-quinn receive ADDRESS SECONDS` prints `ready PORT`; `peer-quinn send ADDRESS:PORT MTU
//! CONTROL` (cubic or bbr; MTU: UDP payload \[byte\]) sends until the receiver ends. Both print
//! `side BYTES SECONDS 0 USER SYSTEM`, the last two the processor's time \[s\].

use std::error::Error;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::{Duration, Instant};

use quinn::congestion::{BbrConfig, CubicConfig};
use quinn::crypto::rustls::QuicClientConfig;
use quinn::rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer};
use quinn::{ClientConfig, Endpoint, EndpointConfig, ServerConfig, TransportConfig, VarInt};

type Outcome<T> = Result<T, Box<dyn Error>>;

/// Time before the measurement, so that a slow start does not count.
const WARM_UP: Duration = Duration::from_millis(300);
/// One write.
const BLOCK_BYTES: usize = 256 << 10;
/// Bytes in flight allowed on both sides: more than any path here holds.
const WINDOW_BYTES: u32 = 64 << 20;
const SOCKET_BUFFER_BYTES: usize = 8 << 20;

fn main() -> Outcome<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    match words[..] {
        ["receive", address, seconds] => {
            runtime.block_on(receive(address.parse()?, Duration::from_secs_f64(seconds.parse()?)))
        }
        ["send", to, mtu, control] => runtime.block_on(send(to.parse()?, mtu.parse()?, control)),
        _ => Err("receive ADDRESS SECONDS | send ADDRESS:PORT MTU CONTROL".into()),
    }
}

fn transport(mtu: u16, control: &str) -> Arc<TransportConfig> {
    let mut config = TransportConfig::default();
    config.initial_mtu(mtu.max(1200)).min_mtu(mtu.max(1200)).mtu_discovery_config(None);
    config.stream_receive_window(VarInt::from_u32(WINDOW_BYTES));
    config.receive_window(VarInt::from_u32(WINDOW_BYTES)).send_window(u64::from(WINDOW_BYTES));
    // A goodbye that is lost must not make the other end wait long.
    config.max_idle_timeout(Some(VarInt::from_u32(1_000).into()));
    match control {
        "bbr" => config.congestion_controller_factory(Arc::new(BbrConfig::default())),
        _ => config.congestion_controller_factory(Arc::new(CubicConfig::default())),
    };
    Arc::new(config)
}

fn endpoint(local: SocketAddr, server: Option<ServerConfig>, mtu: u16) -> Outcome<Endpoint> {
    let kind = socket2::Type::DGRAM;
    let socket = socket2::Socket::new(socket2::Domain::for_address(local), kind, None)?;
    // As much as the host allows; net.core.rmem_max may cut it.
    socket.set_recv_buffer_size(SOCKET_BUFFER_BYTES)?;
    socket.set_send_buffer_size(SOCKET_BUFFER_BYTES)?;
    socket.bind(&local.into())?;
    let mut config = EndpointConfig::default();
    config.max_udp_payload_size(mtu.max(1200))?;
    let runtime = Arc::new(quinn::TokioRuntime);
    Ok(Endpoint::new(config, server, socket.into(), runtime)?)
}

async fn receive(address: IpAddr, time: Duration) -> Outcome<()> {
    let made = rcgen::generate_simple_self_signed(vec!["peer".to_owned()])?;
    let certificate = CertificateDer::from(made.cert.der().to_vec());
    let key = PrivateKeyDer::from(PrivatePkcs8KeyDer::from(made.signing_key.serialize_der()));
    let mut server = ServerConfig::with_single_cert(vec![certificate], key)?;
    server.transport_config(transport(1200, "cubic"));
    let endpoint = endpoint(SocketAddr::new(address, 0), Some(server), 65_000)?;
    println!("ready {}", endpoint.local_addr()?.port());
    let connection = endpoint.accept().await.ok_or("no sender")?.await?;
    let mut stream = connection.accept_uni().await?;
    let mut block = vec![0; BLOCK_BYTES];
    let mut began = Instant::now();
    while began.elapsed() < WARM_UP {
        stream.read(&mut block).await?;
    }
    began = Instant::now();
    let (before, mut bytes) = (cpu(), 0);
    while began.elapsed() < time {
        bytes += stream.read(&mut block).await?.unwrap_or(0);
    }
    print_side(bytes, began.elapsed(), before);
    connection.close(VarInt::from_u32(0), b"");
    // Long enough to say goodbye; it is not waited for an answer.
    tokio::time::sleep(Duration::from_millis(50)).await;
    Ok(())
}

async fn send(to: SocketAddr, mtu: u16, control: &str) -> Outcome<()> {
    let local = SocketAddr::from(([0, 0, 0, 0], 0));
    let endpoint = endpoint(local, None, mtu)?;
    let tls = rustls::ClientConfig::builder()
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(anyone::Anyone))
        .with_no_client_auth();
    let mut client = ClientConfig::new(Arc::new(QuicClientConfig::try_from(tls)?));
    client.transport_config(transport(mtu, control));
    let connection = endpoint.connect_with(client, to, "peer")?.await?;
    let mut stream = connection.open_uni().await?;
    let (block, before, began, mut bytes) = (vec![1; BLOCK_BYTES], cpu(), Instant::now(), 0);
    while let Ok(count) = stream.write(&block).await {
        bytes += count;
    }
    print_side(bytes, began.elapsed(), before);
    Ok(())
}

fn print_side(bytes: usize, time: Duration, before: (f64, f64)) {
    let now = cpu();
    let (user, system) = (now.0 - before.0, now.1 - before.1);
    println!("side {bytes} {} 0 {user} {system}", time.as_secs_f64());
}

/// User and system time \[s\]. Source: proc(5), fields 14 and 15 of `stat`, ticks of 10 ms.
fn cpu() -> (f64, f64) {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let rest = stat.rsplit(") ").next().unwrap_or("");
    let ticks = |field: usize| -> f64 {
        rest.split(' ').nth(field - 3).and_then(|text| text.parse().ok()).unwrap_or(0.0)
    };
    (ticks(14) / 100.0, ticks(15) / 100.0)
}

/// Takes any certificate: both ends are of one benchmark.
mod anyone {
    use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
    use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
    use rustls::{DigitallySignedStruct, Error, SignatureScheme};

    #[derive(Debug)]
    pub struct Anyone;

    impl ServerCertVerifier for Anyone {
        fn verify_server_cert(
            &self,
            _: &CertificateDer<'_>,
            _: &[CertificateDer<'_>],
            _: &ServerName<'_>,
            _: &[u8],
            _: UnixTime,
        ) -> Result<ServerCertVerified, Error> {
            Ok(ServerCertVerified::assertion())
        }

        fn verify_tls12_signature(
            &self,
            _: &[u8],
            _: &CertificateDer<'_>,
            _: &DigitallySignedStruct,
        ) -> Result<HandshakeSignatureValid, Error> {
            Ok(HandshakeSignatureValid::assertion())
        }

        fn verify_tls13_signature(
            &self,
            _: &[u8],
            _: &CertificateDer<'_>,
            _: &DigitallySignedStruct,
        ) -> Result<HandshakeSignatureValid, Error> {
            Ok(HandshakeSignatureValid::assertion())
        }

        fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
            rustls::crypto::ring::default_provider()
                .signature_verification_algorithms
                .supported_schemes()
        }
    }
}
