//! Closed forms, a brute-force model that moves every symbol's time by itself, and faults.
