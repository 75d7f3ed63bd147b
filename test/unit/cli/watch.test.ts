/** The live screen is drawn in place, fits the window, and restores the terminal at the end. */
import { EventEmitter } from "node:events";
import { stripVTControlCharacters } from "node:util";
import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { toned } from "../../../src/cli/printing.js";
import { frame, type WatchOptions, watch } from "../../../src/cli/status/watch.js";

function fakeTerminal() {
  const written: string[] = [];
  const stdout = Object.assign(new EventEmitter(), {
    ...{ columns: 40, rows: 10, isTTY: true },
    write: (text: string) => written.push(text),
  });
  const stdin = Object.assign(new EventEmitter(), {
    isTTY: true,
    isRaw: false,
    resume: () => stdin,
    pause: () => stdin,
    setRawMode(isRaw: boolean) {
      stdin.isRaw = isRaw;
      return stdin;
    },
  });
  return {
    written,
    streams: { stdin, stdout } as unknown as Required<Pick<WatchOptions, "stdin" | "stdout">>,
    press: (key: string) => stdin.emit("data", Buffer.from(key)),
    resize(columns: number, rows: number) {
      Object.assign(stdout, { columns, rows });
      stdout.emit("resize");
    },
    /** Keys and resizes have no effect any more, and the terminal is no longer raw. */
    isReleased: () => stdin.listenerCount("data") + stdout.listenerCount("resize") === 0 && !stdin.isRaw,
  };
}

const ESC = "\x1b[";

describe("a frame", () => {
  it("overwrites the last one from the top and clears only what is left over", () => {
    const drawn = frame(["one", "two"], 10, 5);
    expect(drawn).toBe(`${ESC}?2026h${ESC}Hone${ESC}K\r\ntwo${ESC}K${ESC}J${ESC}?2026l`);
    expect(drawn).not.toContain(`${ESC}2J`);
  });

  it("has no more lines and columns than the window, so that nothing scrolls or wraps", () => {
    const lines = Array.from({ length: 9 }, (_, i) => `line ${i} ${toned("bad", "x".repeat(50))}`);
    const shown = frame(lines, 12, 4).split("\r\n");
    expect(shown).toHaveLength(4);
    for (const line of shown) expect(stripVTControlCharacters(line).length).toBeLessThanOrEqual(12);
  });

  it("ends without a line break, which would scroll a full window", () => {
    expect(frame(["x"], 5, 1)).not.toContain("\n");
  });
});

describe("watching", () => {
  beforeEach(() => void vi.useFakeTimers());
  afterEach(() => void vi.useRealTimers());

  function begin(snapshot = async () => {}) {
    const terminal = fakeTerminal();
    let drawn = 0;
    const looks = vi.fn(snapshot);
    const ended = watch({
      ...terminal.streams,
      intervalMs: 2_000,
      update: looks,
      draw: ({ columns, rows }) => [`screen ${++drawn} of ${columns}×${rows}`],
    });
    return { terminal, looks, ended };
  }

  it("updates and redraws once per interval", async () => {
    const { terminal, looks, ended } = begin();
    expect(terminal.written.join("")).toContain("screen 1 of 40×10");
    await vi.advanceTimersByTimeAsync(6_000);
    expect(looks).toHaveBeenCalledTimes(3);
    expect(terminal.written.at(-1)).toContain("screen 4 of 40×10");
    terminal.press("q");
    await ended;
  });

  it.each([
    ["q", "q"],
    ["Ctrl-C", "\x03"],
    ["Ctrl-D", "\x04"],
  ])("ends with %s, restores the terminal, and stops updating", async (_, key) => {
    const { terminal, looks, ended } = begin();
    expect(terminal.written[0]).toBe(`${ESC}?1049h${ESC}?25l`);
    terminal.press(key);
    await ended;
    expect(terminal.written.at(-1)).toBe(`${ESC}?25h${ESC}?1049l`);
    expect(terminal.isReleased()).toBe(true);
    await vi.advanceTimersByTimeAsync(10_000);
    expect(looks).not.toHaveBeenCalled();
  });

  it("ends on a signal even during an update", async () => {
    const { terminal, ended } = begin(() => new Promise(() => {}));
    await vi.advanceTimersByTimeAsync(2_000);
    process.emit("SIGHUP");
    await ended;
    expect(terminal.written.at(-1)).toBe(`${ESC}?25h${ESC}?1049l`);
  });

  it("updates at once when the space bar is pressed, but never twice at a time", async () => {
    const { terminal, looks, ended } = begin(() => new Promise((resolve) => setTimeout(resolve, 500)));
    terminal.press(" ");
    terminal.press(" ");
    await vi.advanceTimersByTimeAsync(0);
    expect(looks).toHaveBeenCalledTimes(1);
    await vi.advanceTimersByTimeAsync(2_499);
    expect(looks).toHaveBeenCalledTimes(1);
    await vi.advanceTimersByTimeAsync(1);
    expect(looks).toHaveBeenCalledTimes(2);
    terminal.press("q");
    await ended;
  });

  it("redraws when the size of the window changes", async () => {
    const { terminal, ended } = begin();
    terminal.resize(12, 3);
    expect(terminal.written.at(-1)).toContain("screen 2 of…");
    terminal.press("q");
    await ended;
  });

  it("restores the terminal after an error", async () => {
    const { terminal, ended } = begin(() => Promise.reject(new Error("broken")));
    const failed = expect(ended).rejects.toThrow("broken");
    await vi.advanceTimersByTimeAsync(2_000);
    await failed;
    expect(terminal.written.at(-1)).toBe(`${ESC}?25h${ESC}?1049l`);
  });
});
