-- Dissector of the frames that two Fluxline ends exchange on RoCEv2 beside those of the standard:
-- set-up (opcode 0xC0) and selective acknowledgements (0xC1). docs/wire.md describes them. All
-- other frames are left to Wireshark's own dissector.
--
--   tshark -X lua_script:fluxline.lua -r capture.pcap
--   wireshark -X lua_script:fluxline.lua capture.pcap
--
-- Ends on another port than 4791: -d udp.port==4792,fluxline

local fluxline = Proto("fluxline", "Fluxline on RoCEv2")

local SETUP, SELECTIVE = 0xC0, 0xC1
local BTH_BYTES, ICRC_BYTES = 12, 4
local VERSION = 1

local KINDS = {
  [1] = "Hello", [2] = "Retry", [3] = "Accept", [4] = "Refuse",
  [5] = "Import", [6] = "Imported", [7] = "Goodbye", [8] = "Farewell",
}
local STATUSES = {
  [0] = "Done", [1] = "NoSuchRegion", [2] = "WrongKey", [3] = "Rights", [4] = "OutOfRegion",
  [5] = "Unaligned", [6] = "Withdrawn", [7] = "TooLong", [8] = "NoBuffer", [9] = "Disconnected",
  [10] = "Version", [11] = "NoRoom", [12] = "Transport",
}
-- In an acknowledgement, 0 is no refusal.
local REFUSALS = { [0] = "none", [255] = "NotReady" }
for code = 1, 12 do REFUSALS[code] = STATUSES[code] end

local DEC, HEX = base.DEC, base.HEX
local field = {
  opcode = ProtoField.uint8("fluxline.opcode", "Opcode", HEX,
    { [SETUP] = "Set-up", [SELECTIVE] = "Selective acknowledgement" }),
  destination = ProtoField.uint24("fluxline.destination", "Destination queue pair", HEX),
  kind = ProtoField.uint8("fluxline.setup", "Message", DEC, KINDS),
  attempt = ProtoField.uint8("fluxline.attempt", "Attempt", DEC),
  version = ProtoField.uint16("fluxline.version", "Version", DEC),
  nonce = ProtoField.uint64("fluxline.nonce", "Nonce", HEX),
  cookie = ProtoField.uint64("fluxline.cookie", "Cookie", HEX),
  pair = ProtoField.uint32("fluxline.pair", "Queue pair of the sender", HEX),
  psn = ProtoField.uint32("fluxline.psn", "First PSN of the sender", DEC),
  frame_bytes = ProtoField.uint32("fluxline.frame_bytes", "Longest frame [byte]", DEC),
  credit_bytes = ProtoField.uint64("fluxline.credit_bytes", "Credit [byte]", DEC),
  frame_cost = ProtoField.uint32("fluxline.frame_cost", "Buffer beside each frame [byte]", DEC),
  reliable = ProtoField.bool("fluxline.reliable", "Reliable", 8, nil, 0x01),
  checked = ProtoField.bool("fluxline.checked", "With ICRC", 8, nil, 0x02),
  name = ProtoField.string("fluxline.name", "Name"),
  status = ProtoField.uint8("fluxline.status", "Status", DEC, STATUSES),
  request = ProtoField.uint32("fluxline.request", "Request", DEC),
  key = ProtoField.uint64("fluxline.key", "Key of the region", HEX),
  put = ProtoField.bool("fluxline.rights.put", "Right to put", 8, nil, 0x01),
  get = ProtoField.bool("fluxline.rights.get", "Right to get", 8, nil, 0x02),
  atomic = ProtoField.bool("fluxline.rights.atomic", "Right to atomics", 8, nil, 0x04),
  r_key = ProtoField.uint32("fluxline.r_key", "R_Key", HEX),
  region_bytes = ProtoField.uint64("fluxline.region_bytes", "Size of the region [byte]", DEC),
  expected = ProtoField.uint24("fluxline.ack.expected", "Expected PSN", DEC),
  refused = ProtoField.uint8("fluxline.ack.refused", "Refused", DEC, REFUSALS),
  held_bytes = ProtoField.uint16("fluxline.ack.held_bytes", "Bytes of the map", DEC),
  marked = ProtoField.uint32("fluxline.ack.marked", "Marked frames so far", DEC),
  question = ProtoField.uint32("fluxline.ack.question", "Question", DEC),
  answer = ProtoField.uint32("fluxline.ack.answer", "Answer to question", DEC),
  held = ProtoField.bytes("fluxline.ack.held", "Frames held after the expected one (bit 0: next)"),
}
fluxline.fields = field

local malformed = ProtoExpert.new("fluxline.malformed", "The frame ends before its fields",
  expert.group.MALFORMED, expert.severity.ERROR)
local unknown = ProtoExpert.new("fluxline.unknown", "Unknown message",
  expert.group.UNDECODED, expert.severity.WARN)
fluxline.experts = { malformed, unknown }

-- Reads fields one after the other. After the end of the frame it reads nothing more.
local function reader(buffer, from, to, tree)
  local self = { at = from, is_short = false }
  -- Returns the range of the next bytes; nil when they are not there.
  function self.take(bytes)
    if self.is_short or self.at + bytes > to then
      self.is_short = true
      return nil
    end
    local range = buffer(self.at, bytes)
    self.at = self.at + bytes
    return range
  end
  -- Adds a number of this many bytes, little-endian; returns its range.
  function self.number(of, bytes)
    local range = self.take(bytes)
    if range then tree:add_le(of, range) end
    return range
  end
  -- Adds fields that are bits of one byte.
  function self.bits(...)
    local range = self.take(1)
    if range then
      for _, of in ipairs({ ... }) do tree:add(of, range) end
    end
  end
  function self.name()
    local length = self.take(1)
    local range = length and self.take(length:uint())
    if range then tree:add(field.name, range) end
  end
  function self.offer()
    self.number(field.pair, 4)
    self.number(field.psn, 4)
    self.number(field.frame_bytes, 4)
    self.number(field.credit_bytes, 8)
    self.number(field.frame_cost, 4)
    self.bits(field.reliable, field.checked)
    self.name()
  end
  return self
end

local messages = {
  [1] = function(from)
    from.number(field.attempt, 1)
    local version = from.number(field.version, 2)
    from.number(field.nonce, 8)
    from.number(field.cookie, 8)
    -- The offer of another version may have another form.
    if version and version:le_uint() == VERSION then from.offer() end
  end,
  [2] = function(from)
    from.number(field.nonce, 8)
    from.number(field.cookie, 8)
  end,
  [3] = function(from)
    from.number(field.attempt, 1)
    from.number(field.nonce, 8)
    from.offer()
  end,
  [4] = function(from)
    from.number(field.status, 1)
    from.number(field.nonce, 8)
  end,
  [5] = function(from)
    from.number(field.request, 4)
    from.number(field.key, 8)
    from.name()
  end,
  [6] = function(from)
    from.number(field.status, 1)
    from.bits(field.put, field.get, field.atomic)
    from.number(field.request, 4)
    from.number(field.r_key, 4)
    from.number(field.region_bytes, 8)
  end,
  [7] = function(from) from.number(field.pair, 4) end,
  [8] = function() end,
}

-- Returns the text for the column of information.
local function setup(from, tree)
  local kind = from.number(field.kind, 1)
  local read = kind and messages[kind:uint()]
  if read then
    read(from)
    return KINDS[kind:uint()]
  end
  if kind then tree:add_proto_expert_info(unknown) end
  return "Unknown message"
end

local function selective(from, buffer, tree)
  local expected = buffer(9, 3)
  tree:add(field.expected, expected)
  from.take(1)
  from.number(field.refused, 1)
  local held_bytes = from.number(field.held_bytes, 2)
  from.number(field.credit_bytes, 8)
  from.number(field.marked, 4)
  from.number(field.question, 4)
  from.number(field.answer, 4)
  local held = held_bytes and held_bytes:le_uint() > 0 and from.take(held_bytes:le_uint())
  if held then tree:add(field.held, held) end
  return "Selective acknowledgement, expected PSN " .. expected:uint()
end

local udp = DissectorTable.get("udp.port")
local standard = udp:get_dissector(4791)

function fluxline.dissector(buffer, info, root)
  local length = buffer:captured_len()
  local opcode = length > 0 and buffer(0, 1):uint()
  if (opcode ~= SETUP and opcode ~= SELECTIVE) or length < BTH_BYTES + ICRC_BYTES then
    return standard and standard:call(buffer, info, root) or 0
  end
  info.cols.protocol = "Fluxline"
  local tree = root:add(fluxline, buffer())
  tree:add(field.opcode, buffer(0, 1))
  tree:add(field.destination, buffer(5, 3))
  local from = reader(buffer, BTH_BYTES, length - ICRC_BYTES, tree)
  local text = opcode == SETUP and setup(from, tree) or selective(from, buffer, tree)
  if from.is_short then tree:add_proto_expert_info(malformed) end
  info.cols.info = text
  tree:append_text(", " .. text)
  return length
end

udp:add(4791, fluxline)
