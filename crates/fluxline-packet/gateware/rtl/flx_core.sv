// The core: packetiser, responder and registers on one stream of frames; whole frames alternate.
//
//   samples ──▶ packetiser (FIFO, header, check sums) ──┐
//                    ▲                                  ├──▶ tx, to the MAC
//   settings ── registers ◀──▶ responder (ARP, ping, ───┘
//               and counters    register window) ◀───────── rx, from the MAC
`default_nettype none
module flx_core #(
    parameter int FIFO_WORDS = flx_layout_pkg::FIFO_BYTES / 8,
    parameter bit UDP_SUM = 1,
    // The registers after reset.
    parameter [47:0] OWN_MAC = 48'h02f10a0b0c01,
    parameter [31:0] OWN_IP = {8'd10, 8'd23, 8'd0, 8'd2},
    parameter [47:0] PEER_MAC = 48'hffffffffffff,
    parameter [31:0] PEER_IP = {8'd10, 8'd23, 8'd0, 8'd1},
    parameter [15:0] OWN_PORT = 6006,
    parameter [15:0] PEER_PORT = flx_layout_pkg::ROCE ? 4791 : 6006,
    parameter [31:0] SOURCE = 7,
    parameter [15:0] GAP = 0,
    parameter [23:0] DEST_QP = 0, FIRST_PSN = 0,       // this line and the next two: RoCEv2 only
    parameter [31:0] RKEY = 0, RING_BYTES = 0,         // no ring: nothing is sent until it is set
    parameter [63:0] RING_BASE = 0,
    parameter [15:0] REGISTER_PORT = 6007
) (
    input  wire        clk,
    input  wire        rst,
    // Samples in wire order, [7:0] first; key and time are read with the first word of a block.
    input  wire        s_valid,
    input  wire [63:0] s_data, s_key, s_ticks,
    // AXI streams of frames without preamble and FCS. The receive side never waits.
    input  wire        rx_tvalid, rx_tlast, rx_tuser,
    input  wire [63:0] rx_tdata,
    input  wire [7:0]  rx_tkeep,
    output wire        tx_tvalid, tx_tlast,
    input  wire        tx_tready,
    output wire [63:0] tx_tdata,
    output wire [7:0]  tx_tkeep,
    // The ledger, in every cycle: taken = dropped + waiting + sent.
    output wire [63:0] blocks_taken, blocks_dropped, packets_sent,
    output wire [15:0] blocks_waiting
);
  wire pv, pl, rv, rl;
  wire [63:0] pd, rdd;
  wire [7:0] pk, rk;
  wire [47:0] own_mac, peer_mac;
  wire [31:0] own_ip, peer_ip, source;
  wire [15:0] own_port, peer_port, gap;
  wire enable, settings_free, settings_taken, ring_restart;
  wire [23:0] dest_qp, first_psn;
  wire [31:0] rkey, ring_bytes;
  wire [63:0] ring_base;
  wire reg_valid, reg_write, reg_ready, reg_error;
  wire [31:0] reg_address, reg_wdata, reg_rdata;
  wire [31:0] arp_replies, echo_replies, register_replies, requests_missed, frames_wrong;

  reg locked, lock_reply;              // inside a frame of the one or the other
  wire reply = locked ? lock_reply : rv;
  flx_packetiser #(.FIFO_WORDS(FIFO_WORDS), .UDP_SUM(UDP_SUM)) packetiser (
      .clk, .rst, .dst_mac(peer_mac), .src_mac(own_mac), .src_ip(own_ip), .dst_ip(peer_ip),
      .src_port(own_port), .dst_port(peer_port), .source({32'd0, source}), .enable,
      .settings_free, .settings_taken, .dest_qp, .first_psn, .rkey, .ring_bytes, .ring_base,
      .ring_restart, .gap, .s_offered(s_valid), .s_data, .s_key, .s_ticks,
      .m_tvalid(pv), .m_tready(tx_tready && !reply), .m_tdata(pd), .m_tkeep(pk), .m_tlast(pl),
      .blocks_taken, .blocks_dropped, .packets_sent, .blocks_waiting);
  flx_responder responder (
      .clk, .rst, .mac(own_mac), .ip(own_ip), .register_port(REGISTER_PORT),
      .s_tvalid(rx_tvalid), .s_tdata(rx_tdata), .s_tkeep(rx_tkeep), .s_tlast(rx_tlast),
      .s_tuser(rx_tuser), .m_tvalid(rv), .m_tready(tx_tready && reply), .m_tdata(rdd),
      .m_tkeep(rk), .m_tlast(rl), .reg_valid, .reg_write, .reg_address, .reg_wdata, .reg_ready,
      .reg_rdata, .reg_error, .arp_replies, .echo_replies, .register_replies, .requests_missed,
      .frames_wrong);
  flx_registers #(
      .OWN_MAC(OWN_MAC), .OWN_IP(OWN_IP), .PEER_MAC(PEER_MAC), .PEER_IP(PEER_IP),
      .OWN_PORT(OWN_PORT), .PEER_PORT(PEER_PORT), .SOURCE(SOURCE), .GAP(GAP),
      .DEST_QP(DEST_QP), .FIRST_PSN(FIRST_PSN), .RKEY(RKEY), .RING_BYTES(RING_BYTES),
      .RING_BASE(RING_BASE)) registers (
      .clk, .rst, .valid(reg_valid), .write(reg_write), .address(reg_address),
      .wdata(reg_wdata), .ready(reg_ready), .rdata(reg_rdata), .error(reg_error),
      .settings_free, .settings_taken, .dest_qp, .first_psn, .rkey, .ring_bytes, .ring_base,
      .ring_restart, .enable, .gap, .own_mac, .own_ip, .peer_mac, .peer_ip, .own_port,
      .peer_port, .source, .blocks_taken, .blocks_dropped, .packets_sent, .blocks_waiting,
      .arp_replies, .echo_replies, .register_replies, .requests_missed, .frames_wrong);
  assign tx_tvalid = reply ? rv : pv;
  assign tx_tdata = reply ? rdd : pd;
  assign tx_tkeep = reply ? rk : pk;
  assign tx_tlast = reply ? rl : pl;
  always_ff @(posedge clk)
    if (rst) locked <= 0;
    else if (tx_tvalid) begin
      // also when not ready: a frame once offered must not be exchanged for another
      locked <= !(tx_tready && tx_tlast);
      lock_reply <= reply;
    end
endmodule
`default_nettype wire
