"""A random packet description: its TOML, and the bytes of its header for given values."""

M64 = (1 << 64) - 1
# How tightly each operator binds, and its value; docs/packet-descriptions.md, "Expressions".
OPERATORS = {
    "||": (1, lambda a, b: int(bool(a or b))), "&&": (2, lambda a, b: int(bool(a and b))),
    "==": (3, lambda a, b: int(a == b)), "!=": (3, lambda a, b: int(a != b)),
    "<": (3, lambda a, b: int(a < b)), "<=": (3, lambda a, b: int(a <= b)),
    ">": (3, lambda a, b: int(a > b)), ">=": (3, lambda a, b: int(a >= b)),
    "|": (4, lambda a, b: a | b), "^": (5, lambda a, b: a ^ b), "&": (6, lambda a, b: a & b),
    "<<": (7, lambda a, b: a << b & M64 if b < 64 else 0),
    ">>": (7, lambda a, b: a >> b if b < 64 else 0),
    "+": (8, lambda a, b: a + b & M64), "-": (8, lambda a, b: a - b & M64),
    "*": (9, lambda a, b: a * b & M64),
}
VARIABLES = ("sequence", "event", "source", "ticks", "payload", "size")


def mask(bits):
    return (1 << bits) - 1


class Expression:
    """An expression of `[packet.emulate]`: text, how tightly it binds, and its value."""

    def __init__(self, rng, depth):
        kind = rng.random()
        if depth == 0 or kind < 0.15:
            self.binds = 11
            if rng.random() < 0.6:
                name = rng.choice(VARIABLES)
                self.text, self.value, self.names = name, lambda env: env[name], {name}
            else:
                number = rng.choice((0, 1, 3, 63, 64, rng.getrandbits(8), rng.getrandbits(64)))
                self.text = rng.choice((str(number), f"0x{number:X}"))
                self.value, self.names = lambda env: number, set()
        elif kind < 0.25:
            of = Expression(rng, depth - 1)
            self.text, self.binds, self.names = f"!{of.inside(11)}", 11, of.names
            self.value = lambda env: int(of.value(env) == 0)
        else:
            sign = rng.choice(list(OPERATORS))
            self.binds, apply = OPERATORS[sign]
            left, right = Expression(rng, depth - 1), Expression(rng, depth - 1)
            self.text = f"{left.inside(self.binds)} {sign} {right.inside(self.binds + 1)}"
            self.value = lambda env: apply(left.value(env), right.value(env))
            self.names = left.names | right.names

    def inside(self, binds):
        return f"({self.text})" if self.binds < binds else self.text


class Value:
    """A value of the header: least and most bits; its rules, its line of `emulate` (None: no line)
    for a width, and its number for the values of a packet and the width."""

    def __init__(self, name, bits=(1, 64), is_whole=False, rules=None, line=None, of=None):
        self.name, self.bits, self.is_whole = name, bits, is_whole
        self.rules = rules or (lambda width: "")
        self.line = line or (lambda width: None)
        self.of = of
        self.width = 0    # when it has its place


class Draw:
    """A description with sizes for its gateware. `refusal`: a reason for which none can be made."""

    def __init__(self, rng):
        self.rng = rng
        self.refusal, self.small_keys = "", rng.random() < 0.5
        self.order = rng.choice(("big", "little"))
        self.fields, self.lines, self.roles, self.others, self.at = [], [], [], [], 0
        self.names = 0
        self.digits, self.counted = [], 64     # the counter's values, and its most bits
        values = self.role_values() + [self.other() for _ in range(rng.randrange(7))]
        rng.shuffle(values)
        while values:
            self.place(values)
        self.sizes()
        if rng.random() < 0.2:
            self.spoil()

    def name(self):
        self.names += 1
        return f"v{self.names}"

    def role_values(self):
        """Draws roles; returns their values."""
        rng, out = self.rng, []

        def role(name, bits, **more):
            value = Value(self.name(), bits, of=lambda env, width: env[name] & mask(width), **more)
            out.append(value)
            return value.name
        if rng.random() < 0.95:
            self.digits = self.counter()
            out += self.digits
            if rng.random() < 0.3:
                taken, dropped = (role(name, (16, 64), is_whole=True)
                                  for name in ("taken", "dropped"))
                self.roles.append(f'counts = {{ taken = "{taken}", dropped = "{dropped}" }}')
        if rng.random() < 0.6:
            self.roles.append(f'event = {{ key = "{role("event", (4, 64))}" }}')
        if rng.random() < 0.6:
            ticks = role("ticks", (8, 64))
            unit = rng.choice(("8 ns", "6400 ps", "62.5 MHz"))
            self.roles.append(f'timestamp = {{ ticks = "{ticks}", unit = "{unit}", '
                              'epoch = "start" }')
        self.source(out)
        if rng.random() < 0.2:
            kind, number = self.name(), rng.getrandbits(8)
            self.roles.append(f'select = "{kind} + 1 == {number + 1}"')
            self.others = ["[[packet]]", 'name = "other"']
            out.append(Value(kind, (8, 32), of=lambda env, width: number))
        return out

    def counter(self):
        """Draws the packet counter: a value, one with a greatest value, or two parts."""
        rng, name = self.rng, self.name()
        shape = rng.choice(("plain", "plain", "max", "parts", "masked"))
        if shape == "parts":
            low = rng.randrange(4, 17)
            other = self.name()
            self.roles.append(f'sequence = {{ value = "({other} << {low}) + {name}" }}')
            most = mask(low)
            return [
                Value(name, (low, low), line=lambda width: f"sequence & {most}",
                      of=lambda env, width: env["sequence"] & most),
                Value(other, (1, 64 - low), line=lambda width: f"sequence >> {low}",
                      of=lambda env, width: env["sequence"] >> low & mask(width)),
            ]
        bits = rng.choice((4, 5, 8, 12))
        if shape != "plain":
            self.counted = bits
        if shape == "masked":
            self.roles.append(f'sequence = {{ value = "{name} & {mask(bits)}" }}')
            return [Value(name, (bits, 64), line=lambda width: "sequence",
                          of=lambda env, width: env["sequence"] & mask(width))]
        self.roles.append(f'sequence = {{ value = "{name}" }}')
        if shape == "plain":
            return [Value(name, (4, 64), of=lambda env, width: env["sequence"] & mask(width))]
        return [Value(name, (bits, 64), rules=lambda width: f", max = {mask(bits)}",
                      of=lambda env, width: env["sequence"] & mask(bits))]

    def last(self):
        """Returns the number behind which the packet counter begins anew."""
        return mask(min(self.counted, sum(part.width for part in self.digits)) or 64)

    def source(self, out):
        """Draws what tells boards apart: the last value has the lowest bits of SOURCE."""
        terms = [Value(self.name(), (1, 20)) for _ in range(self.rng.randrange(4))]
        for at, term in enumerate(terms):
            term.of = lambda env, width, behind=terms[at + 1:]: (
                env["source"] >> sum(other.width for other in behind) & mask(width))
        names = [f'"{term.name}"' for term in terms] or ['"address"']
        self.roles.append(f"source = [{', '.join(names)}]")
        out += terms

    def other(self):
        """Draws a value without a role."""
        rng, name = self.rng, self.name()
        kind = rng.randrange(4)
        if kind == 0:
            number = rng.getrandbits(64)
            return Value(name, rules=lambda width: f", equals = {number & mask(min(width, 63))}",
                         of=lambda env, width: number & mask(min(width, 63)))
        if kind == 1:
            several = [rng.getrandbits(8) for _ in range(3)]
            return Value(name, (8, 64), rules=lambda width: f", one-of = {several}",
                         line=lambda width: rng.choice((None, str(several[0]))),
                         of=lambda env, width: several[0])
        if kind == 2:
            number = rng.getrandbits(4)
            return Value(name, (4, 64), rules=lambda width: f", min = {number}, max = {number + 1}"
                         if number < 15 else "",
                         line=lambda width: str(number), of=lambda env, width: number)
        made = Expression(rng, rng.randrange(1, 5))
        # A constant that does not fit is refused; any other value loses its upper bits.
        is_constant = made.names <= {"payload", "size"}

        def line(width):
            return f"({made.text}) & {mask(width)}" if is_constant else made.text
        return Value(name, line=line, of=lambda env, width: made.value(env) & mask(width))

    def place(self, values):
        """Puts one value, or several as bits of a word, behind the fields before."""
        rng, value = self.rng, values.pop()
        if rng.random() < 0.15:
            self.padding()
        order = rng.choice((None, "big", "little"))
        least = (value.bits[0] + 7) // 8
        most = value.bits[1] // 8
        if most >= least and (value.is_whole or rng.random() < 0.6):
            count = rng.randrange(least, most + 1)
            self.add(count, order, [(0, 8 * count, value)], value)
            return
        count = rng.randrange(max(least, 1), 9)
        parts, at = [], 0
        while True:
            low = at + rng.choice((0, 0, 1, 5))
            room = 8 * count - low
            if room < value.bits[0]:
                if parts:
                    values.append(value)
                    break
                count, low = 8, 0
                room = 64
            width = rng.randrange(value.bits[0], min(room, value.bits[1], 24 + value.bits[0]) + 1)
            parts.append((low, width, value))
            at = low + width
            if not values or values[-1].is_whole or rng.random() < 0.3:
                break
            value = values.pop()
        self.add(count, order, parts, None)

    def padding(self):
        rng, count = self.rng, self.rng.randrange(1, 9)
        if rng.random() < 0.5:
            self.fields.append((self.at, f"  {{ type = \"u{8 * count}\" }},", count, "big", []))
        else:
            count = rng.randrange(1, 30)
            self.fields.append((self.at, f"  {{ type = \"bytes\", length = {count} }},", count,
                                "big", []))
        self.at += count

    def add(self, count, order, parts, whole):
        gap = self.rng.choice((0, 0, 0, 0, 3))
        self.at += gap
        keys = f', at = {self.at}' if gap else ""
        keys += f', byte-order = "{order}"' if order else ""
        for _, width, value in parts:
            value.width = width
            line = value.line(width)
            if line is not None:
                self.lines.append(f'{value.name} = "{line}"')
        if whole:
            name, rules = whole.name, whole.rules(8 * count)
            text = f'  {{ name = "{name}", type = "u{8 * count}"{keys}{rules} }},'
        else:
            bits = ", ".join(f'{{ name = "{value.name}", bits = "{low + width - 1}..{low}"'
                             f"{value.rules(width)} }}" for low, width, value in parts)
            text = f'  {{ name = "{self.name()}", type = "u{8 * count}"{keys}, bits = [{bits}] }},'
        self.fields.append((self.at, text, count, order or self.order, parts))
        self.at += count

    def sizes(self):
        """Draws the payload, the FIFO and the MTU, and perhaps a field that has the size."""
        rng = self.rng
        words = rng.choice((1, 2, 3, 8, 13, 32, rng.randrange(1, 120)))
        self.payload, self.mtu = 8 * words, 1500
        if rng.random() < 0.05:
            self.payload, self.mtu = 8 * rng.randrange(200, 1000), 9000
        self.rule = ""
        unit = rng.choice((0, 1, 2, 8))
        if unit:
            value = Value(self.name(), (16, 32), of=lambda env, width: env["payload"] // unit)
            self.place([value])
            self.rule = f'size = {{ equals = "{value.name} * {unit} + {self.at}" }}'
            self.size_name = value.name
        self.size = self.at + self.payload
        least = max(16, 1 << (self.payload - 1).bit_length())
        self.fifo = least << rng.choice((0, 1, 2, 4))
        if self.size + 28 > self.mtu:
            self.mtu = 9000

    def spoil(self):
        """Puts something into the description that cannot be sent."""
        rng = self.rng
        name = self.name()
        field = {
            "a number with a fraction": f'{{ name = "{name}", type = "f32" }}',
            "bytes with a name": f'{{ name = "{name}", type = "bytes", length = 3 }}',
            "a field that comes and goes": f'{{ name = "{name}", type = "u8", when = "size & 1" }}',
            "text": f'{{ name = "{name}", type = "decimal", length = 4 }}',
            "a place from the end": f'{{ name = "{name}", type = "u8", at = -1 }}',
            "a field that nobody fills": f'{{ name = "{name}", type = "u8" }}',
            "a constant against its rule": f'{{ name = "{name}", type = "u8", max = 7 }}',
            "a constant against its value": f'{{ name = "{name}", type = "u8", equals = 7 }}',
            "a long header": '{ type = "bytes", length = 600 }',
            "a division": f'{{ name = "{name}", type = "u8" }}',
            "a least value": f'{{ name = "{name}", type = "u8" }}',
        }
        line = {"a constant against its rule": "8", "a constant against its value": "8",
                "a division": "sequence / 3", "a least value": "min(sequence, ticks)"}
        others = ("crc", "trailer", "an odd payload", "a small FIFO", "a FIFO of odd size",
                  "a small MTU")
        self.refusal = rng.choice((*field, *others))
        if self.refusal in field:
            self.fields.append((self.at, f"  {field[self.refusal]},", 0, "big", []))
            self.drop_rule()
        if self.refusal in line:
            self.lines.append(f'{name} = "{line[self.refusal]}"')
        if self.refusal == "crc":
            self.roles.append('crc = { algorithm = "CRC-32/ISCSI", at = -4 }')
        elif self.refusal == "trailer":
            self.roles.append("payload = { trailer = 4 }")
        elif self.refusal == "an odd payload":
            self.payload += rng.randrange(1, 8)
            self.drop_rule()
        elif self.refusal == "a small FIFO":
            self.payload, self.fifo, self.mtu = 64, 32, 9000
            self.drop_rule()
        elif self.refusal == "a FIFO of odd size":
            self.fifo += 8
        elif self.refusal == "a small MTU":
            self.mtu = self.size + 27

    def drop_rule(self):
        """Leaves out the rule of the size, which would be a second reason."""
        if self.rule:
            self.rule = ""
            self.lines.append(f"{self.size_name} = 0")

    def text(self):
        """Returns the TOML."""
        fields = list(self.fields)
        if not self.refusal and self.rng.random() < 0.1:
            # Their order is free where each has its place.
            fields = [(at, text if "at = " in text else
                       text.replace("type = ", f"at = {at}, type = ", 1), *rest)
                      for at, text, *rest in fields]
            self.rng.shuffle(fields)
        lines = "\n".join(field[1] for field in fields)
        emulate = "\n".join(["[packet.emulate.fields]", *self.lines]) if self.lines else ""
        return "\n".join([
            'name = "board"', 'about = "a random board"', 'reference = "random_packets.py"',
            f'byte-order = "{self.order}"', "[[packet]]", 'name = "data"',
            f"fields = [\n{lines}\n]", *self.roles, self.rule, emulate, *self.others, ""])

    def header(self, values):
        """Returns the header of a packet."""
        # In expressions, too, the packet counter begins anew.
        values = {**values, "sequence": values["sequence"] & self.last()}
        out = bytearray(self.at)
        for at, _, count, order, parts in self.fields:
            word = sum(value.of(values, width) << low for low, width, value in parts)
            out[at:at + count] = word.to_bytes(count, order)
        return bytes(out)
