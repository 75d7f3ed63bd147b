/** One bar chart per measure, legible on light and dark backgrounds. */
import type { Measure, Measured } from "./measures.js";

const ROW = 22;
const LABEL = 230;
const WIDTH = 320;

const STYLE = `
text { font: 12px sans-serif; fill: #777 }
.ours { fill: #27c }
.peer { fill: #999 }
.best { stroke: #c60; stroke-dasharray: 4 3 }
@media (prefers-color-scheme: dark) { text { fill: #bbb } .ours { fill: #6af } .peer { fill: #888 } .best { stroke: #f93 } }
`;

export function chart(measure: Measure, all: Measured[]): string {
  const values = all.map((one) => measure.of(one));
  const most = Math.max(measure.best * 1.1, ...values.map((value) => value ?? 0), 1e-9);
  const x = (value: number) => Number(((value / most) * WIDTH).toFixed(1));
  const rows = all.map((one, i) => {
    const value = values[i];
    const y = i * ROW;
    const bar =
      value === undefined
        ? ""
        : `<rect class="${one.isOurs ? "ours" : "peer"}" x="${LABEL}" y="${y + 4}" width="${Math.max(x(value), 1)}" height="${ROW - 8}"/>`;
    const text = value === undefined ? measure.none : measure.text(value);
    const beside = (value === undefined ? 0 : x(value)) + 6;
    // The line of the best value must not cross the text.
    const isCrossed = measure.best > 0 && beside <= x(measure.best) + 2 && beside + text.length * 8 >= x(measure.best);
    const end = LABEL + (isCrossed ? x(measure.best) + 6 : beside);
    return `<text x="${LABEL - 8}" y="${y + 15}" text-anchor="end">${one.title}</text>${bar}<text x="${end}" y="${y + 15}">${text}</text>`;
  });
  const height = all.length * ROW;
  const best = measure.best > 0 ? `<path class="best" d="M${LABEL + x(measure.best)} 0V${height}"/>` : "";
  return `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${LABEL + WIDTH + 110} ${height}" width="${LABEL + WIDTH + 110}" height="${height}" role="img">
<title>${measure.title}</title>
<style>${STYLE}</style>
${rows.join("\n")}
${best}
</svg>
`;
}
