// How the page looks. Shares are shades of one hue that differ by lightness alone, so that paper
// and grey keep them apart; text on the darkest has a contrast of 6.9 : 1.

#ifndef HYDRANT_SERVER_EXPLAIN_PAGE_STYLE_H_
#define HYDRANT_SERVER_EXPLAIN_PAGE_STYLE_H_

namespace hydrant::server {

inline constexpr char kPageStyle[] = R"css(
:root { --ink: #12171b; --soft: #5a6066; --line: #dcdfe3; --accent: #075a8e; --paper: #fff;
  --sans: system-ui, -apple-system, "Segoe UI", Roboto, "Helvetica Neue", "Noto Sans",
    "Liberation Sans", Arial, sans-serif;
  --serif: Charter, "Bitstream Charter", "Iowan Old Style", Cambria, Georgia, "Noto Serif",
    "Liberation Serif", serif; }
* { box-sizing: border-box; print-color-adjust: exact; -webkit-print-color-adjust: exact; }
html { background: var(--paper); color: var(--ink); font: 16px/1.5 var(--sans); }
body { max-width: 1120px; margin: 0 auto; padding: 48px 40px 64px; }
h1 { font-size: 30px; line-height: 1.2; font-weight: 650; letter-spacing: -.015em; margin: 0; }
h2 { font-size: 19px; font-weight: 650; letter-spacing: -.005em; margin: 0 0 4px; }
h3 { font-size: 14px; font-weight: 600; margin: 0 0 8px; }
p { margin: 0; max-width: 90ch; }
section { margin-top: 48px; }
.soft { color: var(--soft); }
.small { font-size: 14px; }
.facts { display: grid; grid-template-columns: repeat(6, 1fr); gap: 16px 28px;
  margin: 28px 0 0; padding: 20px 0; border: solid var(--line); border-width: 1px 0; }
.facts dt { font-size: 13px; color: var(--soft); }
.facts dd { margin: 0; font-size: 20px; font-weight: 600; font-variant-numeric: tabular-nums; }
.facts dd small { display: block; font-size: 13px; font-weight: 400; color: var(--soft); }
.legend { display: flex; flex-wrap: wrap; align-items: center; gap: 4px 10px; margin: 14px 0 18px;
  font-size: 13px; color: var(--soft); }
.legend ol { display: flex; list-style: none; margin: 0; padding: 0; border: 1px solid var(--line); }
.legend li { width: 44px; line-height: 22px; text-align: center; color: var(--ink); }
.s0 { fill: #fff; background: #fff; } .s1 { fill: #edf6fd; background: #edf6fd; }
.s2 { fill: #deedf9; background: #deedf9; } .s3 { fill: #cfe4f5; background: #cfe4f5; }
.s4 { fill: #c0dbf1; background: #c0dbf1; } .s5 { fill: #b1d2ed; background: #b1d2ed; }
.s6 { fill: #a2c9e9; background: #a2c9e9; } .s7 { fill: #93c0e4; background: #93c0e4; }
.s8 { fill: #84b7e0; background: #84b7e0; } .s9 { fill: #75aedb; background: #75aedb; }
.s10 { fill: #66a5d7; background: #66a5d7; }
.text { max-width: none; font: 17px/1.75 var(--serif); white-space: pre-wrap;
  overflow-wrap: anywhere; tab-size: 4; }
.text i, .answer i { font-style: normal; opacity: .6; }
.t { padding: 2px 0; border-right: 1px solid var(--paper); unicode-bidi: isolate; }
.t.s0 { color: #6f757b; }
.t.special { font: 13px var(--sans); padding: 5px 0; }
.t.unfed { outline: 1px dashed var(--soft); outline-offset: -1px; }
.long { max-height: 70vh; overflow: auto; border: 1px solid var(--line); padding: 16px 20px; }
.part { display: flex; align-items: center; gap: 12px; margin: 20px 0 8px; max-width: none;
  font-size: 13px; font-weight: 600; color: var(--soft); }
.part::after { content: ""; flex: 1; border-top: 1px solid var(--line); }
.map { display: grid; grid-template-columns: 28px minmax(0, 1fr) 256px; gap: 0 12px;
  margin-top: 18px; font-size: 12px; color: var(--soft); font-variant-numeric: tabular-nums; }
.map ol { list-style: none; margin: 0; padding: 0; }
.map li { height: var(--row); line-height: var(--row); font-size: min(12px, var(--row)); }
.layers { text-align: right; }
.cells { position: relative; outline: 1px solid var(--line); }
.cells svg { display: block; width: 100%; height: 100%; }
.cells .split { position: absolute; top: -7px; bottom: -7px; border-left: 2px solid var(--ink); }
.axis { position: relative; height: 34px; }
.axis span { position: absolute; top: 8px; transform: translateX(-50%); white-space: nowrap; }
.axis span.end { transform: translateX(-100%); }
.top { height: 22px; align-self: end; font-size: 13px; }
.top span { top: 0; transform: none; }
.top .prompt { right: calc(100% - var(--split) + 8px); }
.top .new { left: min(var(--split) + 8px, 100% - 44px); }
.recall li { display: flex; align-items: center; gap: 8px; color: var(--ink); }
.recall { position: relative; }
.recall .mean { position: absolute; top: 0; bottom: 0; width: calc(100% - 60px); }
.recall .mean::before { content: ""; position: absolute; top: 0; bottom: 0; left: var(--mean);
  border-left: 1px solid var(--ink); }
.recall li > span:last-child { width: 52px; text-align: right; }
.recall .track { flex: 1; height: calc(var(--row) - 4px); background: #eef0f2; }
.recall .track b { display: block; height: 100%; background: #66a5d7; }
.head { align-self: end; padding-bottom: 8px; font-size: 13px; }
.pair { display: grid; grid-template-columns: 1fr 1fr; gap: 40px; margin-top: 18px; }
.answer { font: 17px/1.65 var(--serif); white-space: pre-wrap; overflow-wrap: anywhere; }
.answer .same { color: var(--soft); }
.answer .special { font: 13px var(--sans); color: var(--soft); }
mark { background: none; color: var(--accent); font-weight: 700; text-decoration: underline;
  text-decoration-thickness: 3px; text-underline-offset: 4px; }
footer { margin-top: 56px; padding-top: 16px; border-top: 1px solid var(--line); }
@media (max-width: 1000px) { .facts { grid-template-columns: repeat(3, 1fr); } }
@media (max-width: 860px) {
  body { padding: 28px 20px 40px; }
  .map { grid-template-columns: 24px minmax(0, 1fr) 168px; gap: 0 8px; }
  .legend li { width: 34px; }
  .pair { gap: 28px; }
}
@media (max-width: 620px) { .pair { grid-template-columns: 1fr; } .legend li { width: 26px; } }
@media print {
  body { max-width: none; padding: 0; }
  .long { max-height: none; overflow: visible; border: 0; padding: 0; }
  .map, .pair { break-inside: avoid; }
}
)css";

}  // namespace hydrant::server

#endif  // HYDRANT_SERVER_EXPLAIN_PAGE_STYLE_H_
