/** A line chart of the last 15 minutes. */
import { useEffect, useRef, useState } from "preact/hooks";
import uPlot from "uplot";
import "uplot/dist/uPlot.min.css";
import type { HistoryPoint } from "../../../src/service/dashboard/contract.js";
import { clock } from "../format.js";
import { color, useTheme } from "../theme.js";

export interface ChartLine {
  label: string;
  /** A CSS variable. */
  tone: string;
  value(point: HistoryPoint): number | null;
  /** Fill the area below. */
  filled?: boolean;
}

export interface ChartProps {
  title: string;
  points: readonly HistoryPoint[];
  lines: readonly ChartLine[];
  format(value: number): string;
  /** For the axis; default: `format`. */
  axisFormat?(value: number): string;
  height?: number;
  windowSeconds?: number;
}

const WINDOW_SECONDS = 15 * 60;

export function Chart({
  title,
  points,
  lines,
  format,
  axisFormat = format,
  height = 190,
  windowSeconds = WINDOW_SECONDS,
}: ChartProps) {
  const box = useRef<HTMLDivElement>(null);
  const plot = useRef<uPlot | undefined>(undefined);
  const [hover, setHover] = useState<number | undefined>();
  const data = useRef<readonly HistoryPoint[]>(points);
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
  }, [theme]);

  useEffect(() => plot.current?.setData(columns(points, lines)), [points]);

  /** Values under the pointer, or the latest ones. */
  const shown = (hover === undefined ? undefined : points[hover]) ?? points.at(-1);
  function text(line: ChartLine): string {
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

function columns(points: readonly HistoryPoint[], lines: readonly ChartLine[]): uPlot.AlignedData {
  return [points.map(({ at }) => at), ...lines.map(({ value }) => points.map(value))] as uPlot.AlignedData;
}

interface PlotOptions {
  lines: readonly ChartLine[];
  axisFormat(value: number): string;
  height: number;
  windowSeconds: number;
  width: number;
  moved(index: number | null | undefined): void;
}

function plotOptions({ lines, axisFormat, height, windowSeconds, width, moved }: PlotOptions): uPlot.Options {
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
      // Never below a small positive maximum, so that an idle chart shows its zero line at the bottom.
      y: { range: (_, __, max) => [0, max > 0 ? max * 1.12 : 1] },
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
        grid: { stroke: color("grid"), width: 1 },
        size: 52,
        space: 36,
        values: (_, ticks) => ticks.map((tick) => (tick === 0 ? "0" : axisFormat(tick))),
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
