// Pads RoCEv2 frames and appends the invariant CRC, 64 bits wide, one beat a cycle.
//
// The CRC-32 covers 8 bytes of ones, the IP header, and all behind it, with ones for what routers
// change: type of service, hops, the sums of IP and UDP, and the byte of FECN and BECN. What comes
// before the length of IP is the same in all frames, so the sum begins there, with a constant.
// Source: IBTA volume 1, 7.8.1 and Annex A17.
`default_nettype none
module flx_icrc #(
    parameter int LAST_BYTES = 8,      // bytes of a frame's last beat; all frames have one length
    parameter int PAD_BYTES = 2        // to a multiple of four
) (
    input  wire        clk,
    input  wire        rst,
    input  wire        s_tvalid, s_tlast,
    output wire        s_tready,
    input  wire [63:0] s_tdata,        // zeros behind the last byte
    input  wire [7:0]  s_tkeep,
    output reg         m_tvalid, m_tlast,
    input  wire        m_tready,
    output reg  [63:0] m_tdata,
    output reg  [7:0]  m_tkeep,
    output wire        holds           // the last beat came in, and has not gone out
);
  localparam int COVERED = LAST_BYTES + PAD_BYTES;     // since the last beat's begin: 2, 6 or 10
  localparam [31:0] POLYNOMIAL = 32'hedb88320;         // of Ethernet, lowest bit first

  function [31:0] step(input [31:0] x);
    step = {1'b0, x[31:1]} ^ (x[0] ? POLYNOMIAL : 32'd0);
  endfunction
  // The state before the length of IP: after ones, 0x45 and a masked type of service.
  function [31:0] beginning(input integer unused);
    integer i;
    reg [79:0] bytes;
    begin
      bytes = {8'hff, 8'h45, 64'hffff_ffff_ffff_ffff};
      beginning = 32'hffffffff;
      for (i = 0; i < 80; i = i + 1) beginning = step(beginning ^ {31'd0, bytes[i]});
    end
  endfunction
  // Word i: what bit i of 64 leaves in the state.
  function [2047:0] columns(input integer unused);
    integer i;
    reg [31:0] column;
    begin
      column = POLYNOMIAL;
      for (i = 63; i >= 0; i = i - 1) begin
        columns[32*i+:32] = column;
        column = step(column);
      end
    end
  endfunction
  localparam [31:0] BEGINNING = beginning(0);
  localparam [2047:0] COLUMNS = columns(0);

  reg [31:0] state;
  reg [2:0] beat;                      // of the frame; 7: or a later one
  reg tail;                            // one more beat is to go
  reg [15:0] rest;
  wire head = beat == 3 || beat == 5;
  wire [63:0] covered = s_tdata
      | {8'd0, {8{beat == 2 || beat == 5}}, 32'd0, {16{head}}};
  // Of a full beat; of 6 and of 2 bytes at the end, moved to the upper end.
  wire [63:0] all = covered ^ {32'd0, state};
  wire [63:0] six = {s_tdata[47:0] ^ {16'd0, state}, 16'd0};
  wire [63:0] two = {(COVERED == 2 ? s_tdata[15:0] : 16'd0) ^ state[15:0], 48'd0};
  wire [31:0] after_all, after_six, after_two;
  genvar row, column;
  generate
    for (row = 0; row < 32; row = row + 1) begin : gen_row
      wire [63:0] of;
      for (column = 0; column < 64; column = column + 1) begin : gen_column
        assign of[column] = COLUMNS[32*column+row];
      end
      assign after_all[row] = ^(all & of);
      assign after_six[row] = ^(six & of);
      assign after_two[row] = ^(two & of) ^ (row < 16 && state[(row + 16) % 32]);
    end
  endgenerate

  wire go = !m_tvalid || m_tready;
  assign s_tready = go && !tail;
  assign holds = tail || (m_tvalid && m_tlast);
  always_ff @(posedge clk) begin
    if (rst) begin
      m_tvalid <= 0; m_tlast <= 0; tail <= 0; beat <= 0;
    end else if (go) begin
      m_tvalid <= s_tvalid || tail;
      m_tdata <= s_tdata; m_tkeep <= 8'hff; m_tlast <= 0;
      tail <= 0;
      if (tail) begin
        m_tlast <= 1;
        m_tdata <= COVERED == 6 ? {48'd0, rest} : {16'd0, ~after_two, 16'd0};
        m_tkeep <= COVERED == 6 ? 8'h03 : 8'h3f;
      end else if (s_tvalid) begin
        beat <= s_tlast ? 3'd0 : beat == 7 ? beat : beat + 1'b1;
        state <= beat < 2 ? BEGINNING : after_all;
        rest <= ~after_six[31:16];
        if (s_tlast) case (COVERED)
          2: begin
            m_tdata <= {16'd0, ~after_two, s_tdata[15:0]}; m_tkeep <= 8'h3f; m_tlast <= 1;
          end
          6: begin m_tdata <= {~after_six[15:0], s_tdata[47:0]}; tail <= 1; end
          default: tail <= 1;
        endcase
      end
    end
  end
`ifdef FORMAL
  // What the proof of the packetiser needs to know, and what both prove.
  reg f_begun = 0;
  always @(posedge clk) begin
    f_begun <= 1;
    if (f_begun && !rst) i_tail: assert (!tail || (m_tvalid && !m_tlast && COVERED != 2));
  end
`endif
`ifdef FORMAL_ICRC
  `include "flx_icrc_props.svh"
`endif
endmodule
`default_nettype wire
