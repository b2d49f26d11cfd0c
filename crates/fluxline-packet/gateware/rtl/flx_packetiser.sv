// Samples -> UDP frames, 64 bits wide, one frame for each block of samples.
//
// A sampler cannot wait, so a word that comes when the FIFO is full is lost. To keep the samples
// of a packet contiguous, the decision is made once per block: a block is taken whole or dropped
// whole, and both are counted. A frame starts only when its block is complete in the FIFO, so
// inside a frame tvalid never falls (a 10G MAC has no way to pause there).
//
//   blocks_taken = blocks_dropped + blocks_waiting + packets_sent     (at every cycle)
//
// With RoCEv2, a frame is an RDMA WRITE ONLY with immediate into the next slot of a ring in the
// receiver's memory; flx_icrc pads it and appends the invariant CRC.
`default_nettype none
module flx_packetiser #(
    parameter int BLOCK_WORDS = flx_layout_pkg::PAYLOAD_BYTES / 8,
    parameter int FIFO_WORDS = 2048,   // a power of two
    parameter bit UDP_SUM = 1
) (
    input  wire        clk,
    input  wire        rst,
    // These change only while `settings_free`: a header's sums are made of them.
    input  wire [47:0] dst_mac, src_mac,
    input  wire [31:0] src_ip, dst_ip,
    input  wire [15:0] src_port, dst_port,
    input  wire [63:0] source,
    input  wire [23:0] dest_qp, first_psn,             // this line and the next three: RoCEv2 only
    input  wire [31:0] rkey, ring_bytes,
    input  wire [63:0] ring_base,
    input  wire        ring_restart,   // a cycle behind the change: first PSN, first slot
    input  wire        enable,         // read with the first word of a block
    output wire        settings_free,
    input  wire        settings_taken, // with settings_free: they change with the next cycle
    input  wire [15:0] gap,            // least cycles from a frame's end to the next one's start
    // four 16-bit samples a cycle, in wire order: [7:0] goes first
    input  wire        s_offered,
    input  wire [63:0] s_data,
    input  wire [63:0] s_key,          // read with the first word of a block
    input  wire [63:0] s_ticks,
    // AXI stream of frames without preamble and FCS
    output wire        m_tvalid,
    input  wire        m_tready,
    output wire [63:0] m_tdata,
    output wire [7:0]  m_tkeep,
    output wire        m_tlast,
    // the ledger
    output reg  [63:0] blocks_taken, blocks_dropped, packets_sent,
    output wire [15:0] blocks_waiting
);
  localparam int HEADER_BYTES = flx_layout_pkg::HEADER_BYTES;
  localparam bit ROCE = flx_layout_pkg::ROCE;
  localparam int PAD_BYTES = flx_layout_pkg::PAD_BYTES;
  localparam int TRAILER_BYTES = ROCE ? PAD_BYTES + 4 : 0;
  localparam [15:0] IP_LENGTH = 16'(HEADER_BYTES - 14 + BLOCK_WORDS * 8 + TRAILER_BYTES);
  localparam int AW = $clog2(FIFO_WORDS);
  localparam int BLOCKS = FIFO_WORDS / BLOCK_WORDS;
  localparam int BW = $clog2(BLOCKS + 1);
  localparam int CW = $clog2(BLOCK_WORDS + 1);
  localparam int FULL = HEADER_BYTES / 8;              // beats with header bytes only
  localparam int REST = HEADER_BYTES % 8;              // header bytes in the beat behind them
  localparam int BEATS = (HEADER_BYTES + 7) / 8;
  localparam [31:0] SLOT_BYTES = flx_layout_pkg::SLOT_BYTES;
  localparam bit ODD = (HEADER_BYTES % 2) == 1;

  function [17:0] lanes(input [63:0] x);
    lanes = {2'b0, x[15:0]} + {2'b0, x[31:16]} + {2'b0, x[47:32]} + {2'b0, x[63:48]};
  endfunction
  function [63:0] swapped(input [63:0] x);             // the bytes of each lane exchanged
    swapped = {x[55:48], x[63:56], x[39:32], x[47:40], x[23:16], x[31:24], x[7:0], x[15:8]};
  endfunction

  // ---- taking blocks -------------------------------------------------------------------------
  reg [63:0] mem[0:FIFO_WORDS-1];
  reg [AW-1:0] wr_at;
  reg [CW-1:0] wr_word;                                // word of the block
  reg wr_admitted;
  reg [BW-1:0] used, ready_blocks;                     // blocks admitted, blocks complete
  wire wr_first = wr_word == 0;
  wire ring_there = !ROCE || ring_bytes >= SLOT_BYTES; // room for a packet where it would go
  wire s_valid = s_offered && ((enable && ring_there) || !wr_first);
  wire wr_last = wr_word == CW'(BLOCK_WORDS - 1);
  wire admit = wr_first ? used != BW'(BLOCKS) : wr_admitted;
  wire take = s_valid && admit;
  wire block_in = s_valid && wr_last && admit;
  wire block_out;                                      // the last word of a block was read

  reg [63:0] in_key, in_ticks, in_blocks, in_dropped;

  localparam int DW = 4 * 64;
  localparam int DA = BLOCKS > 1 ? $clog2(BLOCKS) : 1;
  reg [DW-1:0] about[0:BLOCKS-1];                      // of complete blocks
  reg [DA-1:0] about_wr, about_rd;
  wire [63:0] now_key = wr_first ? s_key : in_key;
  wire [63:0] now_ticks = wr_first ? s_ticks : in_ticks;
  wire [63:0] now_blocks = wr_first ? blocks_taken : in_blocks;
  wire [63:0] now_dropped = wr_first ? blocks_dropped : in_dropped;

  always_ff @(posedge clk) begin
    if (take) mem[wr_at] <= s_data;
    if (block_in) about[about_wr] <= {now_key, now_ticks, now_blocks, now_dropped};
    if (rst) begin
      wr_at <= 0; wr_word <= 0; wr_admitted <= 0; about_wr <= 0;
      blocks_taken <= 0; blocks_dropped <= 0;
      used <= 0; ready_blocks <= 0;
    end else begin
      if (s_valid) begin
        wr_word <= wr_last ? 0 : wr_word + 1'b1;
        wr_admitted <= admit;
        if (wr_first) begin
          in_key <= s_key; in_ticks <= s_ticks;
          in_blocks <= blocks_taken; in_dropped <= blocks_dropped;
          blocks_taken <= blocks_taken + 1'b1;
          if (!admit) blocks_dropped <= blocks_dropped + 1'b1;
        end
        if (admit) wr_at <= wr_at + 1'b1;
      end
      if (block_in) about_wr <= about_wr == DA'(BLOCKS - 1) ? 0 : about_wr + 1'b1;
      used <= used + BW'(s_valid && wr_first && admit) - BW'(block_out);
      ready_blocks <= ready_blocks + BW'(block_in) - BW'(block_begun);
    end
  end

  // The sum of a block's words, in three short steps; it is read many cycles later.
  // Where a header has an odd number of bytes, the lanes of samples are those of the sum exchanged.
  localparam int PW = 16 + $clog2(4 * BLOCK_WORDS);
  reg [PW-1:0] sums[0:BLOCKS-1];
  reg [17:0] add_lanes;
  reg [PW-1:0] add_all;
  reg add_valid, add_first, add_last, put_sum;
  reg [DA-1:0] add_at, put_at;
  always_ff @(posedge clk) begin
    add_lanes <= lanes(ODD ? swapped(s_data) : s_data);
    add_valid <= take; add_first <= wr_first; add_last <= wr_last; add_at <= about_wr;
    if (add_valid) add_all <= (add_first ? PW'(0) : add_all) + PW'(add_lanes);
    put_sum <= add_valid && add_last; put_at <= add_at;
    if (put_sum) sums[put_at] <= add_all;
  end

  // ---- preparing a header: its check sums, one beat a cycle, while the frame before is sent ----
  localparam [1:0] P_IDLE = 0, P_SUM = 1, P_FOLD = 2, P_READY = 3;
  reg [1:0] prep;
  reg [63:0] h_key, h_ticks, h_blocks, h_dropped, h_seq;
  reg [15:0] h_ip_sum, h_udp_sum;
  reg [31:0] h_offset;                                 // RoCEv2: the place of the next packet
  reg [23:0] h_psn;
  reg [63:0] h_address;
  reg [DA-1:0] h_at;
  wire block_begun = prep == P_IDLE && ready_blocks != 0 && ring_there && !settings_taken;
  assign settings_free = prep == P_IDLE;
  wire [8*HEADER_BYTES-1:0] header;
  flx_layout layout (
      .dst_mac, .src_mac, .src_ip, .dst_ip, .src_port, .dst_port,
      .ip_sum(h_ip_sum), .udp_sum(h_udp_sum), .source, .sequence_(h_seq), .key(h_key),
      .ticks(h_ticks), .taken(h_blocks), .dropped(h_dropped), .dest_qp, .rkey, .psn(h_psn),
      .address(h_address), .bytes(header));

  localparam int IW = $clog2(BEATS + 1);
  localparam bit SUMMED = UDP_SUM && !ROCE;            // RoCEv2 has the ICRC instead
  localparam [IW-1:0] SUM_LAST = IW'(SUMMED ? BEATS - 1 : 3);
  reg [IW-1:0] index;                                  // beat of the header, read by both machines
  wire [64*BEATS-1:0] padded = {{(64 * BEATS - 8 * HEADER_BYTES) {1'b0}}, header};
  wire [63:0] beat = padded[64*index+:64];

  reg [63:0] sum_beat;
  localparam int SW = 16 + $clog2(4 * (BLOCK_WORDS + BEATS) + 2);
  reg [17:0] lanes_udp;
  reg [18:0] acc_ip;
  reg [SW-1:0] acc_udp;
  reg [2:0] step;
  localparam [15:0] UDP_LENGTH = IP_LENGTH - 16'd20;
  localparam [18:0] IP_CONSTANT = 19'h04500 + {3'd0, IP_LENGTH} + 19'h04000 + 19'h04011;
  localparam [SW-1:0] PSEUDO = SW'(17'h01100) + SW'({UDP_LENGTH[7:0], UDP_LENGTH[15:8]});
  wire sent_header;
  wire [15:0] address_half = index[1] ? (index[0] ? dst_ip[15:0] : dst_ip[31:16])
                                      : (index[0] ? src_ip[15:0] : src_ip[31:16]);
  // One adder each: what is added, or, at the end, what is above 16 bits (one's complement).
  wire folds = prep == P_FOLD && (step == 4 || step == 5);
  wire [SW-1:0] acc_udp_next = (folds ? SW'(acc_udp[15:0]) : acc_udp)
      + (folds ? SW'(acc_udp[SW-1:16])
         : prep == P_FOLD && step == 3 ? SW'(sums[h_at]) : SW'(lanes_udp));
  wire [18:0] acc_ip_next = (folds ? {3'd0, acc_ip[15:0]} : acc_ip)
      + (folds ? {16'd0, acc_ip[18:16]} : {3'd0, address_half});

  always_ff @(posedge clk) begin
    if (rst) begin
      prep <= P_IDLE; about_rd <= 0; h_seq <= 0;
    end else case (prep)
      P_IDLE: if (block_begun) begin
        {h_key, h_ticks, h_blocks, h_dropped} <= about[about_rd];
        h_at <= about_rd;
        about_rd <= about_rd == DA'(BLOCKS - 1) ? 0 : about_rd + 1'b1;
        h_ip_sum <= 0; h_udp_sum <= 0;
        prep <= P_SUM;
        sum_beat <= 0; lanes_udp <= 0;
        acc_ip <= IP_CONSTANT;
        acc_udp <= PSEUDO;
      end
      P_SUM, P_FOLD: begin
        // Of the header, from the addresses of IP on.
        sum_beat <= beat;
        if (index == IW'(3)) sum_beat[15:0] <= 0;
        if (prep == P_FOLD || index < IW'(3)) sum_beat <= 0;
        lanes_udp <= lanes(sum_beat);
        acc_udp <= acc_udp_next;
        // The header of IP: all but the addresses is constant.
        if (folds || (prep == P_SUM && index < IW'(4))) acc_ip <= acc_ip_next;
        if (prep == P_SUM && index == SUM_LAST) begin
          prep <= P_FOLD; step <= 0;
        end
        if (prep == P_FOLD) begin
          step <= step + 1'b1;
          case (step)
            0: h_address <= ring_base + {32'd0, h_offset};
            6: begin
              h_ip_sum <= ~{acc_ip[7:0], acc_ip[15:8]};
              h_udp_sum <= !SUMMED ? 16'd0 : acc_udp[15:0] == 16'hffff ? 16'hffff : ~acc_udp[15:0];
              prep <= P_READY;
            end
            default: ;
          endcase
        end
      end
      P_READY: if (sent_header) begin
        prep <= P_IDLE;
        h_seq <= h_seq + 1'b1;
      end
    endcase
  end

  wire ring_last = {1'b0, h_offset} + {SLOT_BYTES, 1'b0} > {1'b0, ring_bytes};  // the last slot
  always_ff @(posedge clk)
    if (rst || ring_restart) begin
      h_offset <= 0; h_psn <= first_psn;
    end else if (sent_header) begin
      h_offset <= ring_last ? 32'd0 : h_offset + SLOT_BYTES;
      h_psn <= h_psn + 1'b1;
    end

  // ---- sending -------------------------------------------------------------------------------
  localparam [1:0] S_IDLE = 0, S_HEAD = 1, S_DATA = 2, S_TAIL = 3;
  reg [1:0] send;
  reg [AW-1:0] rd_at;
  reg [63:0] rd_data, carry;
  reg b_tvalid, b_tlast;                               // frames without padding and ICRC
  reg [63:0] b_tdata;
  reg [7:0] b_tkeep;
  wire b_tready;
  wire icrc_holds;
  reg [CW-1:0] rd_word;
  reg [15:0] gap_left;
  wire go = !b_tvalid || b_tready;
  wire start = send == S_IDLE && prep == P_READY && gap_left == 0;
  wire rd = start || (send == S_DATA && go);           // read ahead by one word
  wire data_last = rd_word == CW'(BLOCK_WORDS - 1);
  assign block_out = send == S_DATA && go && data_last;
  assign sent_header = send == S_DATA && go && rd_word == 0;
  assign blocks_waiting = 16'(used) + 16'(send == S_TAIL || (b_tvalid && b_tlast))
      + 16'(icrc_holds);

  always_ff @(posedge clk) begin
    if (rd && !(send == S_DATA && data_last)) rd_data <= mem[rd_at];
    if (rst) begin
      send <= S_IDLE; rd_at <= 0; index <= 0; b_tvalid <= 0; b_tlast <= 0;
      gap_left <= 0; packets_sent <= 0; rd_word <= 0;
    end else begin
      if (prep == P_IDLE) index <= 0;
      else if (prep == P_SUM) index <= index == SUM_LAST ? 0 : index + 1'b1;
      if (rd && !(send == S_DATA && data_last)) rd_at <= rd_at + 1'b1;
      if (b_tready) b_tvalid <= 0;
      if (gap_left != 0 && !(b_tvalid && !b_tready)) gap_left <= gap_left - 1'b1;
      if (m_tvalid && m_tready && m_tlast) packets_sent <= packets_sent + 1'b1;
      case (send)
        S_IDLE: if (start) begin
          send <= S_HEAD; rd_word <= 0;
        end
        S_HEAD: if (go) begin
          b_tvalid <= 1; b_tdata <= beat; b_tkeep <= 8'hff; b_tlast <= 0;
          index <= index + 1'b1;
          if (index == IW'(FULL - 1)) send <= S_DATA;
        end
        S_DATA: if (go) begin
          b_tvalid <= 1; b_tkeep <= 8'hff;
          if (REST == 0) b_tdata <= rd_data;
          else begin
            b_tdata <= rd_data << (8 * REST) | (rd_word == 0 ? beat : carry);
            carry <= rd_data >> (64 - 8 * REST);
          end
          b_tlast <= REST == 0 && data_last;
          rd_word <= rd_word + 1'b1;
          if (data_last) begin
            send <= REST == 0 ? S_IDLE : S_TAIL;
            gap_left <= gap;
          end
        end
        S_TAIL: if (go) begin
          b_tvalid <= 1; b_tdata <= carry; b_tkeep <= 8'((1 << REST) - 1); b_tlast <= 1;
          send <= S_IDLE;
          gap_left <= gap;
        end
      endcase
    end
  end
  generate
    if (ROCE) begin : gen_icrc
      flx_icrc #(.LAST_BYTES(REST == 0 ? 8 : REST), .PAD_BYTES(PAD_BYTES)) icrc (
          .clk, .rst, .s_tvalid(b_tvalid), .s_tlast(b_tlast), .s_tready(b_tready),
          .s_tdata(b_tdata), .s_tkeep(b_tkeep), .m_tvalid, .m_tlast, .m_tready, .m_tdata,
          .m_tkeep, .holds(icrc_holds));
    end else begin : gen_plain
      assign m_tvalid = b_tvalid;
      assign m_tdata = b_tdata;
      assign m_tkeep = b_tkeep;
      assign m_tlast = b_tlast;
      assign b_tready = m_tready;
      assign icrc_holds = 0;
    end
  endgenerate
`ifdef FORMAL
  `include "flx_packetiser_props.svh"
`endif
endmodule
`default_nettype wire
