// Answers ARP requests, pings and accesses to registers, so that a board can be found and set
// while it is commissioned. Keeps one frame at a time; requests that come meanwhile are counted and
// left unanswered. A frame that is cut short or has a wrong check sum is counted, never answered.
//
// An access is a UDP datagram of 16 bytes, big-endian: "FLXR", operation (0 read, 1 write), tag,
// two bytes of 0, address (4), value (4). The answer has 0x80 added to the operation, or 0xC0 where
// the address is not in the map or cannot be written.
`default_nettype none
module flx_responder (
    input  wire        clk,
    input  wire        rst,
    input  wire [47:0] mac,
    input  wire [31:0] ip,
    input  wire [15:0] register_port,
    input  wire        s_tvalid,       // never stalls
    input  wire [63:0] s_tdata,
    input  wire [7:0]  s_tkeep,
    input  wire        s_tlast,
    input  wire        s_tuser,        // with tlast: the MAC found a wrong FCS
    output reg         m_tvalid,
    input  wire        m_tready,
    output reg  [63:0] m_tdata,
    output reg  [7:0]  m_tkeep,
    output reg         m_tlast,
    output reg         reg_valid,
    output reg         reg_write,
    output wire [31:0] reg_address, reg_wdata,
    input  wire        reg_ready, reg_error,
    input  wire [31:0] reg_rdata,
    output reg  [31:0] arp_replies, echo_replies, register_replies, requests_missed, frames_wrong
);
  function [47:0] swap48(input [47:0] x);
    swap48 = {x[7:0], x[15:8], x[23:16], x[31:24], x[39:32], x[47:40]};
  endfunction
  function [31:0] swap32(input [31:0] x);
    swap32 = {x[7:0], x[15:8], x[23:16], x[31:24]};
  endfunction
  function [15:0] swap16(input [15:0] x);
    swap16 = {x[7:0], x[15:8]};
  endfunction
  function [19:0] lanes(input [63:0] x);
    lanes = {4'b0, x[15:0]} + {4'b0, x[31:16]} + {4'b0, x[47:32]} + {4'b0, x[63:48]};
  endfunction
  function [31:0] fold(input [31:0] x);
    fold = {16'd0, x[31:16]} + {16'd0, x[15:0]};
  endfunction
  function [3:0] count8(input [7:0] x);
    integer i;
    begin
      count8 = 0;
      for (i = 0; i < 8; i = i + 1) count8 = count8 + {3'd0, x[i]};
    end
  endfunction
  wire [47:0] wmac = swap48(mac);      // in wire order: [7:0] goes first
  wire [31:0] wip = swap32(ip);
  wire [15:0] wport = swap16(register_port);

  reg [63:0] mem[0:255];
  reg [8:0] wr;                        // beat; 256: too long
  reg busy, is_arp, is_echo, is_reg, skip;
  reg arp_ok, echo_ok, reg_ok;
  reg [47:0] peer_mac;
  reg [31:0] peer_ip;
  reg [8:0] beats;
  reg [7:0] keep_last;
  reg [15:0] check;                    // ICMP check sum, low byte first
  reg [16:0] ip_end;                   // bytes from the frame's start to the IP packet's end
  reg [31:0] address, wdata;           // in wire order
  assign reg_address = swap32(address);
  assign reg_wdata = swap32(wdata);
  wire [15:0] check_be = swap16(check);
  wire [16:0] check_up = {1'b0, check_be} + 17'h00800;      // the type goes from 8 to 0
  wire [15:0] check_new = check_up[15:0] + {15'b0, check_up[16]};
  wire [63:0] d = s_tdata;
  wire arp_now = arp_ok && (wr != 5 || d[15:0] == wip[31:16]);

  // Check sums, in three short steps: of the IP header, and of all behind it.
  function [63:0] masked(input [63:0] x, input [8:0] beat, input [16:0] from, input [16:0] to);
    integer i;
    for (i = 0; i < 8; i = i + 1)
      masked[8*i+:8] = {5'd0, beat, 3'd0} + 17'(i) >= from && {5'd0, beat, 3'd0} + 17'(i) < to
          ? x[8*i+:8] : 8'd0;
  endfunction
  reg [63:0] ip_bytes, data_bytes;
  reg [19:0] ip_lanes, data_lanes;
  reg [31:0] ip_sum, data_sum;
  reg no_sum;                          // a UDP datagram without a check sum
  reg [2:0] checking;                  // steps until the sums are known; 0: they are
  reg done;
  wire sums_right = ip_sum[15:0] == 16'hffff && (data_sum[15:0] == 16'hffff || (is_reg && no_sum));

  always_ff @(posedge clk) begin
    if (s_tvalid && !busy && !skip) mem[wr[7:0]] <= d;
    ip_lanes <= lanes(ip_bytes);
    data_lanes <= lanes(data_bytes);
    ip_bytes <= 0; data_bytes <= 0;
    if (s_tvalid && !busy && !skip) begin
      ip_bytes <= masked(d, wr, 14, 34);
      data_bytes <= masked(d, wr, reg_ok ? 26 : 34, ip_end);
    end
    if (!busy && wr == 0) begin ip_sum <= 0; data_sum <= 0; end
    else if (checking == 3 || checking == 2) begin
      ip_sum <= fold(ip_sum); data_sum <= fold(data_sum);
    end else begin
      ip_sum <= ip_sum + {12'd0, ip_lanes};
      // The pseudo header: protocol and length; the addresses are among the bytes.
      data_sum <= data_sum + {12'd0, data_lanes} + (checking == 5 && is_reg ? 32'h02900 : 32'd0);
    end
    if (rst) begin
      wr <= 0; skip <= 0; busy <= 0; is_arp <= 0; is_echo <= 0; is_reg <= 0; checking <= 0;
      arp_ok <= 0; echo_ok <= 0; reg_ok <= 0; requests_missed <= 0; frames_wrong <= 0;
      reg_valid <= 0;
    end else begin
      if (done) begin busy <= 0; is_arp <= 0; is_echo <= 0; is_reg <= 0; end
      if (checking != 0) checking <= checking - 1'b1;
      if (checking == 1) begin
        if (is_arp || sums_right) reg_valid <= is_reg;
        else begin
          busy <= 0; is_echo <= 0; is_reg <= 0;
          frames_wrong <= frames_wrong + 1'b1;
        end
      end
      if (reg_ready) reg_valid <= 0;
      if (s_tvalid) begin
        if (busy && wr == 0) begin                          // still answering
          if (!s_tlast) skip <= 1;
          if (!skip) requests_missed <= requests_missed + 1'b1;
        end else if (!skip) begin
          wr <= s_tlast ? 9'd0 : wr == 9'd256 ? wr : wr + 1'b1;
          case (wr)
            0: begin
              arp_ok <= d[47:0] == wmac || &d[47:0];
              echo_ok <= d[47:0] == wmac;
              reg_ok <= d[47:0] == wmac;
              peer_mac[15:0] <= d[63:48];
            end
            1: begin
              peer_mac[47:16] <= d[31:0];
              if (d[63:32] != 32'h0100_0608) arp_ok <= 0;   // 0806 0001
              if (d[55:32] != 24'h45_0008) begin            // 0800 45
                echo_ok <= 0; reg_ok <= 0;
              end
            end
            2: begin
              if (d[47:0] != 48'h0100_0406_0008) arp_ok <= 0;
              if (d[63:56] != 8'd1 || (d[47:32] & 16'hff3f) != 0) echo_ok <= 0;
              if (d[63:56] != 8'd17 || (d[47:32] & 16'hff3f) != 0 || d[15:0] != 16'h2c00)
                reg_ok <= 0;
              ip_end <= {1'b0, swap16(d[15:0])} + 17'd14;
            end
            3: begin
              peer_ip <= arp_ok ? d[63:32] : d[47:16];
              if (d[63:48] != wip[15:0]) begin echo_ok <= 0; reg_ok <= 0; end
            end
            4: begin
              if (d[63:48] != wip[15:0]) arp_ok <= 0;
              if (d[31:0] != {16'h0008, wip[31:16]}) echo_ok <= 0;
              if (d[15:0] != wip[31:16] || d[47:32] != wport || d[63:48] != 16'h1800)
                reg_ok <= 0;
              check <= d[47:32];
            end
            5: begin
              if (d[15:0] != wip[31:16]) arp_ok <= 0;
              no_sum <= d[15:0] == 0;
              if (d[47:16] != 32'h52_58_4c_46 || d[55:48] > 8'd1) reg_ok <= 0;   // FLXR
              reg_write <= d[48];
            end
            6: begin
              address <= d[47:16];
              wdata[15:0] <= d[63:48];
            end
            7: wdata[31:16] <= d[15:0];
            default: ;
          endcase
          if (s_tlast) begin
            if (!s_tuser && wr >= 5 && wr < 256) begin
              is_arp <= arp_now;
              is_echo <= echo_ok;
              is_reg <= reg_ok && wr >= 7;
              busy <= arp_now || echo_ok || (reg_ok && wr >= 7);
              checking <= arp_now || echo_ok || (reg_ok && wr >= 7) ? 3'd5 : 3'd0;
              if (!arp_now && (echo_ok || reg_ok)
                  && {5'd0, wr, 3'd0} + {13'd0, count8(s_tkeep)} < ip_end) begin
                busy <= 0; is_echo <= 0; is_reg <= 0; checking <= 0;
                frames_wrong <= frames_wrong + 1'b1;        // cut short
              end
            end else if (s_tuser || wr == 256) frames_wrong <= frames_wrong + 1'b1;
            beats <= wr;
            keep_last <= s_tkeep;
          end
        end
        if (s_tlast) skip <= 0;
      end
    end
  end

  reg [8:0] rd;
  reg [63:0] q;
  reg running;                         // q holds beat rd
  reg answered, refused;               // the access was made
  reg [31:0] value;                    // in wire order
  wire go = !m_tvalid || m_tready;
  wire short_reply = is_arp || is_reg;
  wire last = rd == (short_reply ? 9'd7 : beats);
  reg [63:0] out;
  always_comb begin
    out = q;
    case (rd)
      0: out = {wmac[15:0], peer_mac};
      1: out = {q[63:32], wmac[47:16]};
      2: if (is_arp) out = {wmac[15:0], 48'h0200_0406_0008};
      3: out = is_arp ? {wip, wmac[47:16]} : {peer_ip[15:0], wip, q[15:0]};
      4: out = is_arp ? {peer_ip[15:0], peer_mac}
             : is_reg ? {q[63:48], q[31:16], q[47:32], peer_ip[31:16]}
             : {q[63:48], check_new[7:0], check_new[15:8], 16'h0000, peer_ip[31:16]};
      5: if (is_arp) out = {48'd0, peer_ip[31:16]};
         else if (is_reg) out = {q[63:56], 1'b1, refused, 5'd0, q[48], q[47:16], 16'd0};
      6: if (is_arp) out = 0;
         else if (is_reg) out = {value[15:0], q[47:0]};
      7: if (is_arp) out = 0;
         else if (is_reg) out = {48'd0, value[31:16]};
      default: ;
    endcase
  end
  wire start = busy && checking == 0 && (!is_reg || answered) && !running && !done;
  wire rd_en = start || (running && go);
  wire [7:0] rd_next = start ? 8'd0 : rd[7:0] + 1'b1;
  always_ff @(posedge clk) begin
    if (rd_en) q <= mem[rd_next];
    done <= 0;
    if (reg_ready) begin
      answered <= 1; refused <= reg_error; value <= swap32(reg_rdata);
    end
    if (rst) begin
      running <= 0; m_tvalid <= 0; m_tlast <= 0; done <= 0; answered <= 0;
      arp_replies <= 0; echo_replies <= 0; register_replies <= 0;
    end else begin
      if (m_tready) m_tvalid <= 0;
      if (start) begin
        rd <= 0; running <= 1;
      end
      if (running && go) begin
        m_tvalid <= 1; m_tdata <= out; m_tlast <= last;
        m_tkeep <= !last ? 8'hff : short_reply ? 8'h0f : keep_last;
        rd <= rd + 1'b1;
        if (last) begin
          running <= 0; done <= 1; answered <= 0;
          if (is_arp) arp_replies <= arp_replies + 1'b1;
          else if (is_reg) register_replies <= register_replies + 1'b1;
          else echo_replies <= echo_replies + 1'b1;
        end
      end
    end
  end
endmodule
`default_nettype wire
