//! Messages of a benchmark's control connection from strangers: an order that is carried out or
//! refused, and never more.

use fluxline_bench::control::Message;
use fluxline_bench::registry;
use fluxline_bench::role::Side;

/// Any bytes as the body of a message.
///
/// # Panics
/// When a message that was read cannot be written again.
pub fn control_message(bytes: &[u8]) {
    let Ok(message) = serde_json::from_slice::<Message>(bytes) else { return };
    let again = serde_json::to_vec(&message).expect("it was read, so it can be written");
    assert!(serde_json::from_slice::<Message>(&again).is_ok(), "what is written can be read");
    match message {
        Message::Hello { greeting, .. } | Message::Welcome { greeting, .. } => {
            if let Err(error) = greeting.check() {
                let text = error.to_string();
                assert!(!text.chars().any(char::is_control), "it goes to a terminal: {text:?}");
            }
        }
        Message::Begin { trial, parameters, .. } => {
            for side in [Side::Near, Side::Far] {
                let _ = registry::role(&trial, &parameters, side);
            }
        }
        _ => {}
    }
}
