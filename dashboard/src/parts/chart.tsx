/** A line chart of the last minutes, at most 15. */
import { useEffect, useRef, useState } from "preact/hooks";
import uPlot from "uplot";
import "uplot/dist/uPlot.min.css";
import { clock } from "../format.js";
import { color, useTheme } from "../theme.js";

interface Point {
  /** Unix time in seconds. */
  at: number;
}

export interface ChartLine<P extends Point> {
  label: string;
  /** A CSS variable. */
  tone: string;
  value(point: P): number | null;
  /** Fill the area below. */
  filled?: boolean;
}

export interface ChartProps<P extends Point> {
  title: string;
  points: readonly P[];
  lines: readonly ChartLine<P>[];
  format(value: number): string;
  /** For the axis; default: `format`. */
  axisFormat?(value: number): string;
  height?: number;
  /** Default: from the first point on, at most 15 minutes. */
  windowSeconds?: number;
  /** A logarithmic axis, for values that differ by orders of magnitude. */
  isLogarithmic?: boolean;
}

const WINDOWS_SECONDS = [2 * 60, 5 * 60, 15 * 60];

/** The shortest window with all points, so that the charts of a service that has just started are not almost empty. */
function windowOf(points: readonly Point[]): number {
  const seconds = points.length === 0 ? 0 : Date.now() / 1000 - points[0]!.at;
  return WINDOWS_SECONDS.find((one) => one >= seconds) ?? WINDOWS_SECONDS.at(-1)!;
}

export function Chart<P extends Point>({
  title,
  points,
  lines,
  format,
  axisFormat = format,
  height = 190,
  windowSeconds = windowOf(points),
  isLogarithmic = false,
}: ChartProps<P>) {
  const box = useRef<HTMLDivElement>(null);
  const plot = useRef<uPlot | undefined>(undefined);
  const [hover, setHover] = useState<number | undefined>();
  const data = useRef<readonly P[]>(points);
  const [theme] = useTheme();
  data.current = points;

  useEffect(() => {
    const element = box.current as HTMLDivElement;
    const created = new uPlot(
      plotOptions({
        lines,
        axisFormat,
        height,
        windowSeconds,
        isLogarithmic,
        width: element.clientWidth,
        moved: (index) => setHover(index ?? undefined),
      }),
      columns(data.current, lines),
      element,
    );
    plot.current = created;
    const observer = new ResizeObserver(() => created.setSize({ width: element.clientWidth, height }));
    observer.observe(element);
    return () => {
      observer.disconnect();
      created.destroy();
    };
  }, [theme, windowSeconds, lines]);

  useEffect(() => plot.current?.setData(columns(points, lines)), [points]);

  /** Values under the pointer, or the latest ones. */
  const shown = (hover === undefined ? undefined : points[hover]) ?? points.at(-1);
  function text(line: ChartLine<P>): string {
    const value = shown === undefined ? null : line.value(shown);
    return value === null ? "–" : format(value);
  }

  const summary = lines.map((line) => `${line.label} ${text(line)}`).join(", ");
  return (
    <figure class="card chart">
      <figcaption class="chart-head">
        <h3>{title}</h3>
        {hover !== undefined && shown !== undefined && <p class="chart-time">{clock(shown.at * 1000)}</p>}
        <ul class="legend">
          {lines.map((line) => (
            <li key={line.label}>
              <i class={`dot tone-${line.tone}`} />
              {line.label} <span class="legend-value num">{text(line)}</span>
            </li>
          ))}
        </ul>
      </figcaption>
      <div
        class="chart-box"
        role="img"
        aria-label={`${title}, last ${windowSeconds / 60} minutes. Now: ${summary}`}
        ref={box}
      >
        {points.length < 2 && <p class="chart-empty">Collecting data…</p>}
      </div>
    </figure>
  );
}

function columns<P extends Point>(points: readonly P[], lines: readonly ChartLine<P>[]): uPlot.AlignedData {
  return [points.map(({ at }) => at), ...lines.map(({ value }) => points.map(value))] as uPlot.AlignedData;
}

interface PlotOptions {
  lines: readonly Omit<ChartLine<never>, "value">[];
  axisFormat(value: number): string;
  height: number;
  windowSeconds: number;
  isLogarithmic: boolean;
  width: number;
  moved(index: number | null | undefined): void;
}

/** Never below a small positive maximum, so that an idle chart shows its zero line at the bottom. */
const fromZero: uPlot.Scale = { range: (_, __, max) => [0, max > 0 ? max * 1.12 : 1] };
/** From power of ten to power of ten. */
const logarithmic: uPlot.Scale = {
  distr: 3,
  range: (_, min, max) =>
    min > 0 && max > 0 ? [10 ** Math.floor(Math.log10(min)), 10 ** Math.ceil(Math.log10(max * 1.01))] : [0.01, 10],
};

function plotOptions(options: PlotOptions): uPlot.Options {
  const { lines, axisFormat, height, windowSeconds, isLogarithmic, width, moved } = options;
  const font = '11px "Inter Variable", system-ui, sans-serif';
  const axis = { stroke: color("faint"), font, ticks: { show: false }, border: { show: false } };
  return {
    width,
    height,
    legend: { show: false },
    padding: [8, 4, 0, 0],
    cursor: { y: false, points: { size: 7 }, drag: { x: false, y: false } },
    hooks: { setCursor: [(self: uPlot) => moved(self.cursor.idx)] },
    scales: {
      x: {
        range: () => {
          const now = Date.now() / 1000;
          return [now - windowSeconds, now];
        },
      },
      y: isLogarithmic ? logarithmic : fromZero,
    },
    axes: [
      {
        ...axis,
        grid: { show: false },
        space: 70,
        size: 28,
        values: (_, ticks) => ticks.map((tick) => clock(tick * 1000).slice(0, windowSeconds > 300 ? 5 : 8)),
      },
      {
        ...axis,
        grid: { stroke: color("grid"), width: 1, ...(isLogarithmic ? { filter: powersOfTen } : {}) },
        size: 52,
        space: 36,
        values: (_, ticks) => ticks.map((tick) => (tick === null ? "" : tick === 0 ? "0" : axisFormat(tick))),
        ...(isLogarithmic ? { filter: powersOfTen } : {}),
      },
    ],
    series: [
      {},
      ...lines.map(({ label, tone, filled }) => ({
        label,
        stroke: color(tone),
        width: 1.75,
        spanGaps: false,
        points: { show: false },
        ...(filled === true ? { fill: color(`${tone}-fill`) } : {}),
      })),
    ],
  };
}

/** Labels only these ticks of a logarithmic axis. */
function powersOfTen(_: uPlot, ticks: number[]): (number | null)[] {
  return ticks.map((tick) => (Math.abs(Math.log10(tick) - Math.round(Math.log10(tick))) < 1e-6 ? tick : null));
}
