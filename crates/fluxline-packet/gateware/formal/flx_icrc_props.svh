// Properties of flx_icrc, read inside it with -DFORMAL_ICRC. What it assumes of its input, the
// proof of the packetiser asserts of its output. The CRC's value is compared with scapy's in test/.
  reg f_past = 0;
  always @(posedge clk) f_past <= 1;
  initial assume (rst);
  always @(posedge clk) if (f_past) assume (!rst);

  // The input: a stable stream without pauses in a frame, of frames of one length modulo 8.
  reg [15:0] f_in, f_out;              // bytes of the frame so far
  wire [15:0] f_kept = 16'(m_tkeep[0]) + 16'(m_tkeep[1]) + 16'(m_tkeep[2]) + 16'(m_tkeep[3])
                     + 16'(m_tkeep[4]) + 16'(m_tkeep[5]) + 16'(m_tkeep[6]) + 16'(m_tkeep[7]);
  always @(posedge clk) if (f_past && !$past(rst) && $past(s_tvalid && !s_tready))
    assume (s_tvalid && $stable(s_tdata) && $stable(s_tkeep) && $stable(s_tlast));
  always @(posedge clk) if (f_past && !rst) begin
    assume (f_in == 0 || s_tvalid);
    assume (!s_tvalid || s_tkeep == (s_tlast ? 8'((1 << LAST_BYTES) - 1) : 8'hff));
    assume (!s_tlast || f_in >= 56);
    assume (f_in < 16'hff00);
  end
  reg [15:0] f_length;                 // of the last frame that came in
  always @(posedge clk)
    if (rst) begin f_in <= 0; f_out <= 0; end
    else begin
      if (s_tvalid && s_tready) begin
        f_in <= s_tlast ? 16'd0 : f_in + 16'd8;
        if (s_tlast) f_length <= f_in + 16'(LAST_BYTES);
      end
      if (m_tvalid && m_tready) f_out <= m_tlast ? 16'd0 : f_out + f_kept;
    end

  // 1. AXI stream: what is offered stays until it is taken
  always @(posedge clk) if (f_past && !$past(rst) && $past(m_tvalid && !m_tready))
    stable: assert (m_tvalid && $stable(m_tdata) && $stable(m_tkeep) && $stable(m_tlast));
  // 2. No underrun
  always @(posedge clk) if (f_past && !rst && f_out != 0)
    no_underrun: assert (m_tvalid);
  // 3. Padding and ICRC are added, no more, and every byte is said to be one
  always @(posedge clk) if (f_past && !rst && m_tvalid) begin
    keep_full: assert (m_tlast || m_tkeep == 8'hff);
    keep_low: assert (m_tkeep != 0 && (m_tkeep & (m_tkeep + 8'd1)) == 0);
    if (m_tlast) longer: assert (f_out + f_kept == f_length + 16'(PAD_BYTES) + 16'd4);
  end
  // 4. Between the last beat's ways in and out, it says so
  always @(posedge clk) if (f_past && !rst)
    held: assert (holds == (f_in == 0 && m_tvalid));
  always @(posedge clk) if (f_past && !rst)
    two_frames: cover (f_out == 64 && f_length != 0);

  // What a proof by induction needs to know beside that.
  always @(posedge clk) if (f_past && !rst) begin
    i_beat: assert (f_in[2:0] == 0 && (beat == 7 ? f_in >= 56 : f_in == 16'({beat, 3'd0})));
    i_ended: assert (!tail || f_in == 0);
    i_inside: assert (f_in == 0 || (m_tvalid && !m_tlast && f_out + 16'd8 == f_in));
    i_held: assert (!tail || f_out + 16'd8 == f_length + 16'(8 - LAST_BYTES));
    i_none: assert (m_tvalid || f_out == 0);
  end
