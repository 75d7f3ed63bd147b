/** docs/growth.svg: one small chart per sweep and measure, with a logarithmic x axis. */
import type { Measured, Point } from "../support/fleet.js";
import type { MeasuredSweep } from "./sweeps.js";

interface Measure {
  title: string;
  of(measured: Measured): number;
  /** Ends of the y axis. */
  low: number;
  high: number;
  logarithmic: boolean;
  /** For 10 nodes × 1,000 apps × 0.5 requests/s. Drawn as a dashed line. */
  budget: number;
  text(value: number): string;
}

const short = (value: number) => String(Number(value.toPrecision(2)));
const percent = (value: number) => `${Number((value * 100).toPrecision(3))} %`;

const MEASURES: Measure[] = [
  {
    title: "ledger entries per request",
    of: (measured) => measured.entriesPerRequest,
    low: 0.0001,
    high: 1,
    logarithmic: true,
    budget: 0.1,
    text: short,
  },
  {
    title: "Redis CPU per request, µs",
    of: (measured) => measured.redisUsPerRequest,
    low: 0.01,
    high: 1_000,
    logarithmic: true,
    budget: 5,
    text: short,
  },
  {
    title: "decided locally",
    of: (measured) => measured.localRatio,
    low: 0,
    high: 1,
    logarithmic: false,
    budget: 0.95,
    text: percent,
  },
];

const PANEL = { width: 240, height: 110 };
const MARGIN = { left: 60, top: 34, right: 55, bottom: 50 };
const STEP = { x: PANEL.width + MARGIN.left + MARGIN.right, y: PANEL.height + MARGIN.top + MARGIN.bottom };

/** Legible on light and dark backgrounds: medium colours, and lighter ones where the reader prefers dark. */
const STYLE = `
text { font: 11px sans-serif; fill: #777 }
.title { font-weight: bold }
.axis { stroke: #888; fill: none }
.budget { stroke: #c60; stroke-dasharray: 4 3 }
.line { stroke: #27c; stroke-width: 2; fill: none }
.point { fill: #27c }
@media (prefers-color-scheme: dark) { text { fill: #bbb } .line { stroke: #6af } .point { fill: #6af } .budget { stroke: #f93 } }
`;

export function growthChart(sweeps: MeasuredSweep[]): string {
  const width = STEP.x * sweeps.length;
  const height = STEP.y * MEASURES.length;
  const panels = MEASURES.flatMap((measure, row) =>
    sweeps.map((sweep, column) => {
      const [x, y] = [column * STEP.x + MARGIN.left, row * STEP.y + MARGIN.top];
      return `<g transform="translate(${x} ${y})">\n${panel(measure, sweep)}\n</g>`;
    }),
  );
  return `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${width} ${height}" width="${width}" height="${height}" role="img">
<title>Ledger entries, Redis CPU and local decisions per request, by apps, nodes and requests per second</title>
<style>${STYLE}</style>
${panels.join("\n")}
</svg>
`;
}

function panel(measure: Measure, { varied, title, points, measured }: MeasuredSweep): string {
  const values = points.map((point) => point[varied]);
  const x = scale(Math.min(...values), Math.max(...values), PANEL.width, true);
  const up = scale(measure.low, measure.high, PANEL.height, measure.logarithmic);
  const y = (value: number) => PANEL.height - up(value);
  const marks = points.map((point, i) => mark(point, measured[i]!));

  function mark(point: Point, one: Measured) {
    const value = measure.of(one);
    return { x: x(point[varied]), y: y(value), text: measure.text(value), at: point[varied] };
  }

  return [
    line("axis", `M0 0V${PANEL.height}H${PANEL.width}`),
    line("budget", `M0 ${round(y(measure.budget))}H${PANEL.width}`),
    text(0, -14, measure.title, 'class="title"'),
    text(-6, 8, measure.text(measure.high), 'text-anchor="end"'),
    text(-6, PANEL.height, measure.text(measure.low), 'text-anchor="end"'),
    text(PANEL.width / 2, PANEL.height + 34, title, 'text-anchor="middle"'),
    ...marks.map((one) => text(one.x, PANEL.height + 16, one.at.toLocaleString("en-US"), 'text-anchor="middle"')),
    line("line", `M${marks.map((one) => `${round(one.x)} ${round(one.y)}`).join("L")}`),
    ...marks.map((one) => `<circle class="point" cx="${round(one.x)}" cy="${round(one.y)}" r="3"/>`),
    // Above the point, or below it at the upper end of the axis.
    ...marks.map((one) => text(one.x + 4, one.y < 16 ? one.y + 16 : one.y - 7, one.text)),
  ].join("\n");
}

/** Maps low…high to 0…length. Values outside are drawn at the end of the axis. */
function scale(low: number, high: number, length: number, logarithmic: boolean): (value: number) => number {
  const at = (value: number) => (logarithmic ? Math.log(value) : value);
  return (value) => {
    const within = Math.min(Math.max(value, low), high);
    return ((at(within) - at(low)) / (at(high) - at(low))) * length;
  };
}

const round = (value: number) => Number(value.toFixed(1));
const line = (kind: string, path: string) => `<path class="${kind}" d="${path}"/>`;
const text = (x: number, y: number, content: string, attributes = "") =>
  `<text x="${round(x)}" y="${round(y)}"${attributes === "" ? "" : ` ${attributes}`}>${content}</text>`;
