//! Integer expressions over fields: text to tree, tree to value.
//!
//! Precedence climbing over a token at a time (Pratt, "Top down operator precedence", 1973). The
//! depth of the tree is bounded while it is built, so that no later walk over it can overflow the
//! stack. That no step leaves 0..=u64::MAX is proven at load by `interval`.

use alloc::boxed::Box;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::fmt::Write;

/// Longest text of an expression \[byte\].
pub(crate) const EXPRESSION_BYTES_MAX: usize = 64 * 1024;
/// Deepest nesting of an expression, counting a chain of operators as nested.
pub(crate) const EXPRESSION_DEPTH_MAX: usize = 100;

/// A checked expression. Values are numbers into the table of the layout that it belongs to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Expr {
    /// A literal, or a parameter with its value put in.
    Constant(u64),
    /// The value of that number in the layout's `values`.
    Value(usize),
    /// Bytes of the UDP payload.
    Size,
    /// The UDP port that the packet was sent to.
    Port,
    /// `!a`: 1 where `a` is 0, else 0.
    Not(Box<Expr>),
    /// An operator between two.
    Binary(Binary, Box<Expr>, Box<Expr>),
    /// `gray(a)`: the binary number whose Gray code is `a`.
    Gray(Box<Expr>),
}

/// Operators and functions of two operands. Comparisons and `&&`, `||` yield 1 or 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "the names are the documentation")]
pub enum Binary {
    Add,
    Subtract,
    Multiply,
    Divide,
    Remainder,
    And,
    Or,
    ExclusiveOr,
    ShiftLeft,
    ShiftRight,
    Equal,
    NotEqual,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
    BothTrue,
    AnyTrue,
    Minimum,
    Maximum,
}

/// The operators that are written between their operands.
const OPERATORS: [Binary; 18] = [
    Binary::Add,
    Binary::Subtract,
    Binary::Multiply,
    Binary::Divide,
    Binary::Remainder,
    Binary::And,
    Binary::Or,
    Binary::ExclusiveOr,
    Binary::ShiftLeft,
    Binary::ShiftRight,
    Binary::Equal,
    Binary::NotEqual,
    Binary::Less,
    Binary::LessOrEqual,
    Binary::Greater,
    Binary::GreaterOrEqual,
    Binary::BothTrue,
    Binary::AnyTrue,
];

/// Returns the operator or punctuation mark at the start of `text`, the longest one that fits.
#[must_use]
pub fn leading_symbol(text: &str) -> Option<&'static str> {
    const LONGER_FIRST: [&str; 23] = [
        "<<", ">>", "==", "!=", "<=", ">=", "&&", "||", "+", "-", "*", "/", "%", "&", "|", "^",
        "<", ">", "!", "(", ")", ",", "=",
    ];
    LONGER_FIRST.into_iter().find(|symbol| text.starts_with(symbol))
}

impl Binary {
    /// Returns the operator of this spelling; the functions `min` and `max` have none.
    #[must_use]
    pub fn of_symbol(symbol: &str) -> Option<Binary> {
        OPERATORS.into_iter().find(|operator| operator.symbol() == symbol)
    }

    /// Returns its spelling: the operator, or the function's name.
    #[must_use]
    pub const fn symbol(self) -> &'static str {
        match self {
            Binary::Add => "+",
            Binary::Subtract => "-",
            Binary::Multiply => "*",
            Binary::Divide => "/",
            Binary::Remainder => "%",
            Binary::And => "&",
            Binary::Or => "|",
            Binary::ExclusiveOr => "^",
            Binary::ShiftLeft => "<<",
            Binary::ShiftRight => ">>",
            Binary::Equal => "==",
            Binary::NotEqual => "!=",
            Binary::Less => "<",
            Binary::LessOrEqual => "<=",
            Binary::Greater => ">",
            Binary::GreaterOrEqual => ">=",
            Binary::BothTrue => "&&",
            Binary::AnyTrue => "||",
            Binary::Minimum => "min",
            Binary::Maximum => "max",
        }
    }

    /// Returns how tightly it binds, as in C but with `& ^ |` above the comparisons, as in Rust and
    /// Python.
    #[must_use]
    pub const fn binding(self) -> u8 {
        match self {
            Binary::AnyTrue => 1,
            Binary::BothTrue => 2,
            Binary::Equal | Binary::NotEqual => 3,
            Binary::Less | Binary::LessOrEqual | Binary::Greater | Binary::GreaterOrEqual => 3,
            Binary::Or => 4,
            Binary::ExclusiveOr => 5,
            Binary::And => 6,
            Binary::ShiftLeft | Binary::ShiftRight => 7,
            Binary::Add | Binary::Subtract => 8,
            Binary::Multiply | Binary::Divide | Binary::Remainder => 9,
            Binary::Minimum | Binary::Maximum => 10,
        }
    }

    /// Returns true when its operands may change places.
    #[must_use]
    pub(crate) const fn is_symmetric(self) -> bool {
        matches!(
            self,
            Binary::Add
                | Binary::Multiply
                | Binary::And
                | Binary::Or
                | Binary::ExclusiveOr
                | Binary::Equal
                | Binary::NotEqual
                | Binary::BothTrue
                | Binary::AnyTrue
                | Binary::Minimum
                | Binary::Maximum
        )
    }

    /// The operation itself. Total: what a checked expression cannot do (overflow, division by
    /// zero, a shift beyond 63) wraps or yields 0, so that emulator expressions may use it too.
    #[must_use]
    #[inline]
    pub const fn apply(self, left: u64, right: u64) -> u64 {
        match self {
            Binary::Add => left.wrapping_add(right),
            Binary::Subtract => left.wrapping_sub(right),
            Binary::Multiply => left.wrapping_mul(right),
            Binary::Divide if right == 0 => 0,
            Binary::Divide => left / right,
            Binary::Remainder if right == 0 => 0,
            Binary::Remainder => left % right,
            Binary::And => left & right,
            Binary::Or => left | right,
            Binary::ExclusiveOr => left ^ right,
            Binary::ShiftLeft | Binary::ShiftRight if right > 63 => 0,
            Binary::ShiftLeft => left << right,
            Binary::ShiftRight => left >> right,
            Binary::Equal => (left == right) as u64,
            Binary::NotEqual => (left != right) as u64,
            Binary::Less => (left < right) as u64,
            Binary::LessOrEqual => (left <= right) as u64,
            Binary::Greater => (left > right) as u64,
            Binary::GreaterOrEqual => (left >= right) as u64,
            Binary::BothTrue => (left != 0 && right != 0) as u64,
            Binary::AnyTrue => (left != 0 || right != 0) as u64,
            Binary::Minimum if left < right => left,
            Binary::Minimum => right,
            Binary::Maximum if left > right => left,
            Binary::Maximum => right,
        }
    }
}

/// The number whose Gray code is `code` (F. Gray, US patent 2632058): bit n is the parity of the
/// bits from n up.
#[must_use]
#[inline]
pub(crate) const fn gray_to_binary(code: u64) -> u64 {
    let mut binary = code;
    binary ^= binary >> 1;
    binary ^= binary >> 2;
    binary ^= binary >> 4;
    binary ^= binary >> 8;
    binary ^= binary >> 16;
    binary ^ (binary >> 32)
}

impl Expr {
    /// The value, with those of the fields from `value`. Cost: a walk over the tree.
    pub fn evaluate(&self, value: &dyn Fn(usize) -> u64, size: u64, port: u64) -> u64 {
        match self {
            Expr::Constant(constant) => *constant,
            Expr::Value(id) => value(*id),
            Expr::Size => size,
            Expr::Port => port,
            Expr::Not(of) => u64::from(of.evaluate(value, size, port) == 0),
            Expr::Gray(of) => gray_to_binary(of.evaluate(value, size, port)),
            Expr::Binary(operator, left, right) => {
                operator.apply(left.evaluate(value, size, port), right.evaluate(value, size, port))
            }
        }
    }

    /// The constant that it is, if it is one.
    #[must_use]
    pub fn constant(&self) -> Option<u64> {
        match self {
            Expr::Constant(constant) => Some(*constant),
            _ => None,
        }
    }

    /// Calls `visit` with the number of each value in it.
    pub fn for_each_value(&self, visit: &mut dyn FnMut(usize)) {
        match self {
            Expr::Value(id) => visit(*id),
            Expr::Not(of) | Expr::Gray(of) => of.for_each_value(visit),
            Expr::Binary(_, left, right) => {
                left.for_each_value(visit);
                right.for_each_value(visit);
            }
            Expr::Constant(_) | Expr::Size | Expr::Port => {}
        }
    }

    /// Returns true when `size` occurs in it.
    #[must_use]
    pub(crate) fn uses_size(&self) -> bool {
        match self {
            Expr::Size => true,
            Expr::Not(of) | Expr::Gray(of) => of.uses_size(),
            Expr::Binary(_, left, right) => left.uses_size() || right.uses_size(),
            Expr::Constant(_) | Expr::Value(_) | Expr::Port => false,
        }
    }

    /// As text, with the names from `name`; brackets only where they are needed.
    #[must_use]
    pub fn to_text(&self, name: &dyn Fn(usize) -> String) -> String {
        let mut text = String::new();
        self.write(&mut text, name, 0);
        text
    }

    fn write(&self, out: &mut String, name: &dyn Fn(usize) -> String, outer: u8) {
        match self {
            Expr::Constant(constant) => {
                let _ = write!(out, "{constant}");
            }
            Expr::Value(id) => out.push_str(&name(*id)),
            Expr::Size => out.push_str("size"),
            Expr::Port => out.push_str("port"),
            Expr::Not(of) => {
                out.push('!');
                of.write(out, name, 11);
            }
            Expr::Gray(of) => {
                out.push_str("gray(");
                of.write(out, name, 0);
                out.push(')');
            }
            Expr::Binary(function @ (Binary::Minimum | Binary::Maximum), left, right) => {
                let _ = write!(out, "{}(", function.symbol());
                left.write(out, name, 0);
                out.push_str(", ");
                right.write(out, name, 0);
                out.push(')');
            }
            Expr::Binary(operator, left, right) => {
                let inner = operator.binding();
                let brackets = inner < outer;
                out.push_str(if brackets { "(" } else { "" });
                left.write(out, name, inner);
                let _ = write!(out, " {} ", operator.symbol());
                right.write(out, name, inner + 1);
                out.push_str(if brackets { ")" } else { "" });
            }
        }
    }
}

/// The answer to `a = 1`.
const SINGLE_EQUALS: &str = "`=` does not compare; write `==`";

/// Returns the value that a name means; an error says why it means none.
pub(crate) type Resolve<'a> = dyn Fn(&str) -> Result<Expr, String> + 'a;

/// Parses `text`; the error says what is wrong, where in the text, and what may stand there.
pub(crate) fn parse(text: &str, resolve: &Resolve<'_>) -> Result<Expr, String> {
    if text.len() > EXPRESSION_BYTES_MAX {
        return Err(format!(
            "the expression has {} bytes, {EXPRESSION_BYTES_MAX} are allowed; split it with \
             `computed` values",
            text.len()
        ));
    }
    let mut parser = Parser { text, at: 0, token: Token::End, resolve };
    parser.advance()?;
    let (expression, _) = parser.binary(0, 0)?;
    match parser.token {
        Token::End => Ok(expression),
        Token::Symbol("=") => Err(SINGLE_EQUALS.to_string()),
        token => Err(format!("{} is after the end of the expression", token.show())),
    }
}

/// One word of an expression.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Token<'a> {
    Number(u64),
    Name(&'a str),
    Symbol(&'a str),
    End,
}

impl Token<'_> {
    fn show(self) -> String {
        match self {
            Token::Number(number) => format!("`{number}`"),
            Token::Name(text) | Token::Symbol(text) => format!("`{text}`"),
            Token::End => "the end".to_string(),
        }
    }

    fn operator(self) -> Option<Binary> {
        let Token::Symbol(symbol) = self else { return None };
        Binary::of_symbol(symbol)
    }
}

/// A tree with its depth.
type Tree = (Expr, usize);

struct Parser<'a> {
    text: &'a str,
    at: usize,
    token: Token<'a>,
    resolve: &'a Resolve<'a>,
}

impl<'a> Parser<'a> {
    /// Parses operators that bind at least as tightly as `least`.
    fn binary(&mut self, least: u8, nesting: usize) -> Result<Tree, String> {
        let mut left = self.operand(nesting)?;
        while let Some(operator) = self.token.operator().filter(|o| o.binding() >= least) {
            self.advance()?;
            let right = self.binary(operator.binding() + 1, nesting + 1)?;
            let depth = left.1.max(right.1) + 1;
            check_depth(depth)?;
            left = (Expr::Binary(operator, Box::new(left.0), Box::new(right.0)), depth);
        }
        Ok(left)
    }

    fn operand(&mut self, nesting: usize) -> Result<Tree, String> {
        check_depth(nesting)?;
        let token = self.token;
        self.advance()?;
        match token {
            Token::Number(number) => Ok((Expr::Constant(number), 1)),
            Token::Name(name @ ("min" | "max" | "gray")) if self.token == Token::Symbol("(") => {
                self.call(name, nesting)
            }
            Token::Name(name) if self.token == Token::Symbol("(") => Err(format!(
                "`{name}` is not a function; the functions are min(a, b), max(a, b) and gray(a)"
            )),
            Token::Name(name) => Ok(((self.resolve)(name)?, 1)),
            Token::Symbol("(") => {
                let inner = self.binary(0, nesting + 1)?;
                self.expect(")")?;
                Ok(inner)
            }
            Token::Symbol("!") => {
                let (of, depth) = self.operand(nesting + 1)?;
                check_depth(depth + 1)?;
                Ok((Expr::Not(Box::new(of)), depth + 1))
            }
            Token::Symbol("-") => {
                Err("negative numbers do not exist here; write a difference, `a - b`".to_string())
            }
            Token::Symbol("=") => Err(SINGLE_EQUALS.to_string()),
            token => Err(format!("{} is where a number, a name or `(` is expected", token.show())),
        }
    }

    fn call(&mut self, function: &str, nesting: usize) -> Result<Tree, String> {
        self.expect("(")?;
        let (first, mut depth) = self.binary(0, nesting + 1)?;
        let expression = if function == "gray" {
            Expr::Gray(Box::new(first))
        } else {
            if self.token != Token::Symbol(",") {
                return Err(format!("`{function}` takes two operands: {function}(a, b)"));
            }
            self.advance()?;
            let (second, second_depth) = self.binary(0, nesting + 1)?;
            depth = depth.max(second_depth);
            let operator = if function == "min" { Binary::Minimum } else { Binary::Maximum };
            Expr::Binary(operator, Box::new(first), Box::new(second))
        };
        self.expect(")")?;
        check_depth(depth + 1)?;
        Ok((expression, depth + 1))
    }

    fn expect(&mut self, symbol: &str) -> Result<(), String> {
        if self.token == Token::Symbol("=") {
            return Err(SINGLE_EQUALS.to_string());
        }
        if self.token != Token::Symbol(symbol) {
            return Err(format!("{} is where `{symbol}` is expected", self.token.show()));
        }
        self.advance()
    }

    fn advance(&mut self) -> Result<(), String> {
        let rest = self.text[self.at..].trim_start();
        self.at = self.text.len() - rest.len();
        let Some(first) = rest.chars().next() else {
            self.token = Token::End;
            return Ok(());
        };
        let word = |character: char| character.is_ascii_alphanumeric() || character == '_';
        let len = rest.find(|character| !word(character)).unwrap_or(rest.len());
        self.token = if first.is_ascii_digit() {
            Token::Number(number(&rest[..len])?)
        } else if word(first) {
            Token::Name(&rest[..len])
        } else {
            Token::Symbol(leading_symbol(rest).ok_or_else(|| {
                format!("the character `{}` means nothing in an expression", first.escape_debug())
            })?)
        };
        self.at += match self.token {
            Token::Symbol(symbol) => symbol.len(),
            _ => len,
        };
        Ok(())
    }
}

fn check_depth(depth: usize) -> Result<(), String> {
    match depth > EXPRESSION_DEPTH_MAX {
        true => Err(format!(
            "the expression is nested more than {EXPRESSION_DEPTH_MAX} deep; split it with \
             `computed` values"
        )),
        false => Ok(()),
    }
}

fn number(digits: &str) -> Result<u64, String> {
    let plain: String = digits.chars().filter(|&digit| digit != '_').collect();
    let hex = plain.strip_prefix("0x").or_else(|| plain.strip_prefix("0X"));
    let value = match hex {
        Some(hex) => u64::from_str_radix(hex, 16),
        None => plain.parse(),
    };
    value.map_err(|_| {
        format!(
            "`{digits}` is not a number from 0 to {}; write it in decimal or, with 0x, hexadecimal",
            u64::MAX
        )
    })
}

/// Returns the value of an expression without names of values; `None`: it depends on the packet.
pub(crate) fn constant_of(expression: &Expr) -> Option<u64> {
    let mut fields = Vec::new();
    expression.for_each_value(&mut |id| fields.push(id));
    let fixed = fields.is_empty() && !expression.uses_size() && !uses_port(expression);
    fixed.then(|| expression.evaluate(&|_| 0, 0, 0))
}

fn uses_port(expression: &Expr) -> bool {
    match expression {
        Expr::Port => true,
        Expr::Not(of) | Expr::Gray(of) => uses_port(of),
        Expr::Binary(_, left, right) => uses_port(left) || uses_port(right),
        Expr::Constant(_) | Expr::Value(_) | Expr::Size => false,
    }
}
