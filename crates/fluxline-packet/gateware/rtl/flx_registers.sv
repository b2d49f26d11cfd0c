// Settings and counters behind the register window. The addresses are in flx_map_pkg.
//
// A setting changes only while no header is prepared from it, so that no frame mixes two settings.
// Counters are read from a snapshot, which a write to SNAPSHOT takes of all of them in one cycle.
`default_nettype none
module flx_registers #(
    parameter [47:0] OWN_MAC = 0,
    parameter [31:0] OWN_IP = 0,
    parameter [47:0] PEER_MAC = 0,
    parameter [31:0] PEER_IP = 0,
    parameter [15:0] OWN_PORT = 0,
    parameter [15:0] PEER_PORT = 0,
    parameter [31:0] SOURCE = 0,
    parameter [15:0] GAP = 0,
    parameter [23:0] DEST_QP = 0, FIRST_PSN = 0,
    parameter [31:0] RKEY = 0, RING_BYTES = 0,
    parameter [63:0] RING_BASE = 0
) (
    input  wire        clk,
    input  wire        rst,
    // One access: `valid` stays until `ready`; `rdata` and `error` are valid with `ready`.
    input  wire        valid,
    input  wire        write,
    input  wire [31:0] address,
    input  wire [31:0] wdata,
    output reg         ready,
    output reg  [31:0] rdata,
    output reg         error,
    input  wire        settings_free,
    output wire        settings_taken,
    output reg  [23:0] dest_qp, first_psn,             // this line and the next three: RoCEv2 only
    output reg  [31:0] rkey, ring_bytes,
    output reg  [63:0] ring_base,
    output reg         ring_restart,
    output reg         enable,
    output reg  [15:0] gap,
    output reg  [47:0] own_mac,
    output reg  [31:0] own_ip,
    output reg  [47:0] peer_mac,
    output reg  [31:0] peer_ip,
    output reg  [15:0] own_port, peer_port,
    output reg  [31:0] source,
    input  wire [63:0] blocks_taken, blocks_dropped, packets_sent,
    input  wire [15:0] blocks_waiting,
    input  wire [31:0] arp_replies, echo_replies, register_replies, requests_missed, frames_wrong
);
  reg [63:0] s_taken, s_dropped, s_sent;
  reg [15:0] s_waiting;
  reg known, writable;
  reg [31:0] value;
  always_comb begin
    known = 1; writable = 0; value = 0;
    case (address)
      flx_map_pkg::IDENTITY: value = flx_map_pkg::IDENTITY_VALUE;
      flx_map_pkg::LAYOUT: value = flx_layout_pkg::LAYOUT_HASH;
      flx_map_pkg::CONTROL: begin value = {31'd0, enable}; writable = 1; end
      flx_map_pkg::GAP: begin value = {16'd0, gap}; writable = 1; end
      flx_map_pkg::OWN_MAC_HIGH: begin value = {16'd0, own_mac[47:32]}; writable = 1; end
      flx_map_pkg::OWN_MAC_LOW: begin value = own_mac[31:0]; writable = 1; end
      flx_map_pkg::OWN_IP: begin value = own_ip; writable = 1; end
      flx_map_pkg::PEER_MAC_HIGH: begin value = {16'd0, peer_mac[47:32]}; writable = 1; end
      flx_map_pkg::PEER_MAC_LOW: begin value = peer_mac[31:0]; writable = 1; end
      flx_map_pkg::PEER_IP: begin value = peer_ip; writable = 1; end
      flx_map_pkg::PORTS: begin value = {own_port, peer_port}; writable = 1; end
      flx_map_pkg::SOURCE: begin value = source; writable = 1; end
      flx_map_pkg::SNAPSHOT: writable = 1;
      flx_map_pkg::TAKEN_LOW: value = s_taken[31:0];
      flx_map_pkg::TAKEN_HIGH: value = s_taken[63:32];
      flx_map_pkg::DROPPED_LOW: value = s_dropped[31:0];
      flx_map_pkg::DROPPED_HIGH: value = s_dropped[63:32];
      flx_map_pkg::SENT_LOW: value = s_sent[31:0];
      flx_map_pkg::SENT_HIGH: value = s_sent[63:32];
      flx_map_pkg::WAITING: value = {16'd0, s_waiting};
      flx_map_pkg::ARP_REPLIES: value = arp_replies;
      flx_map_pkg::ECHO_REPLIES: value = echo_replies;
      flx_map_pkg::REGISTER_REPLIES: value = register_replies;
      flx_map_pkg::REQUESTS_MISSED: value = requests_missed;
      flx_map_pkg::FRAMES_WRONG: value = frames_wrong;
      default: known = 0;
    endcase
    // Settings of RoCEv2 are not there without it.
    if (flx_layout_pkg::ROCE) case (address)
      flx_map_pkg::DEST_QP: begin known = 1; writable = 1; value = {8'd0, dest_qp}; end
      flx_map_pkg::RKEY: begin known = 1; writable = 1; value = rkey; end
      flx_map_pkg::RING_BASE_HIGH: begin known = 1; writable = 1; value = ring_base[63:32]; end
      flx_map_pkg::RING_BASE_LOW: begin known = 1; writable = 1; value = ring_base[31:0]; end
      flx_map_pkg::RING_BYTES: begin known = 1; writable = 1; value = ring_bytes; end
      flx_map_pkg::FIRST_PSN: begin known = 1; writable = 1; value = {8'd0, first_psn}; end
      default: ;
    endcase
  end
  wire allowed = known && (!write || writable);
  wire now = valid && !ready && (settings_free || !write);
  assign settings_taken = now && write;
  always_ff @(posedge clk) begin
    ready <= now && !rst;
    rdata <= allowed ? (write ? wdata : value) : 32'd0;
    error <= !allowed;
    ring_restart <= rst;
    if (rst) begin
      enable <= 1; gap <= GAP; own_mac <= OWN_MAC; own_ip <= OWN_IP; peer_mac <= PEER_MAC;
      peer_ip <= PEER_IP; own_port <= OWN_PORT; peer_port <= PEER_PORT; source <= SOURCE;
      s_taken <= 0; s_dropped <= 0; s_sent <= 0; s_waiting <= 0;
      dest_qp <= DEST_QP; first_psn <= FIRST_PSN; rkey <= RKEY; ring_bytes <= RING_BYTES;
      ring_base <= RING_BASE;
    end else if (now && write) begin
      case (address)
        flx_map_pkg::DEST_QP: dest_qp <= wdata[23:0];
        flx_map_pkg::RKEY: rkey <= wdata;
        flx_map_pkg::RING_BASE_HIGH: begin ring_base[63:32] <= wdata; ring_restart <= 1; end
        flx_map_pkg::RING_BASE_LOW: begin ring_base[31:0] <= wdata; ring_restart <= 1; end
        flx_map_pkg::RING_BYTES: begin ring_bytes <= wdata; ring_restart <= 1; end
        flx_map_pkg::FIRST_PSN: begin first_psn <= wdata[23:0]; ring_restart <= 1; end
        flx_map_pkg::CONTROL: enable <= wdata[0];
        flx_map_pkg::GAP: gap <= wdata[15:0];
        flx_map_pkg::OWN_MAC_HIGH: own_mac[47:32] <= wdata[15:0];
        flx_map_pkg::OWN_MAC_LOW: own_mac[31:0] <= wdata;
        flx_map_pkg::OWN_IP: own_ip <= wdata;
        flx_map_pkg::PEER_MAC_HIGH: peer_mac[47:32] <= wdata[15:0];
        flx_map_pkg::PEER_MAC_LOW: peer_mac[31:0] <= wdata;
        flx_map_pkg::PEER_IP: peer_ip <= wdata;
        flx_map_pkg::PORTS: begin own_port <= wdata[31:16]; peer_port <= wdata[15:0]; end
        flx_map_pkg::SOURCE: source <= wdata;
        flx_map_pkg::SNAPSHOT: begin
          s_taken <= blocks_taken; s_dropped <= blocks_dropped; s_sent <= packets_sent;
          s_waiting <= blocks_waiting;
        end
        default: ;
      endcase
    end
  end
endmodule
`default_nettype wire
