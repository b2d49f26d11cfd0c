//! Expressions of `[packet.emulate]` as SystemVerilog over 64 bits.

use alloc::format;
use alloc::string::{String, ToString};

use crate::expression::{Binary, Expr};
use crate::layout::EMULATE_VARIABLES;

/// Returns the expression over signals of the core, or the reason why hardware does not compute it.
/// `last` is the number after which the packet counter begins anew, as for the emulator.
pub(super) fn expression(of: &Expr, payload: u64, size: u64, last: u64) -> Result<String, String> {
    let inner = |of: &Expr| expression(of, payload, size, last);
    match of {
        Expr::Constant(constant) => Ok(format!("64'd{constant}")),
        Expr::Size => Ok(format!("64'd{size}")),
        Expr::Port => Err("`port` is the receiver's; the core does not know it".to_string()),
        Expr::Value(id) => match EMULATE_VARIABLES[*id] {
            "payload" => Ok(format!("64'd{payload}")),
            "sequence" if last == u64::MAX => Ok("sequence_".to_string()),
            "sequence" => Ok(format!("(sequence_ & 64'd{last})")),
            "event" => Ok("key".to_string()),
            name @ ("source" | "ticks") => Ok(name.to_string()),
            "index" | "offset" => Ok("64'd0".to_string()),
            "count" => Ok("64'd1".to_string()),
            "total" => Ok(format!("64'd{payload}")),
            name => Err(format!("the core has no `{name}`")),
        },
        Expr::Not(of) => Ok(format!("{{63'd0, {} == 64'd0}}", inner(of)?)),
        Expr::Gray(_) => Err("`gray` is not made by the core".to_string()),
        Expr::Binary(operator, left, right) => {
            let (left, right) = (inner(left)?, inner(right)?);
            let symbol = operator.symbol();
            match operator {
                Binary::Divide | Binary::Remainder => Err(format!(
                    "`{symbol}` is a division, for which the core has no time; use `>>` or `&`"
                )),
                Binary::Minimum | Binary::Maximum => {
                    Err(format!("`{symbol}` is not made by the core"))
                }
                _ if operator.binding() <= 3 => {
                    let truth = |text: &str| format!("({text} != 64'd0)");
                    let (left, right) = match operator {
                        Binary::BothTrue | Binary::AnyTrue => (truth(&left), truth(&right)),
                        _ => (left, right),
                    };
                    Ok(format!("{{63'd0, {left} {symbol} {right}}}"))
                }
                _ => Ok(format!("({left} {symbol} {right})")),
            }
        }
    }
}
