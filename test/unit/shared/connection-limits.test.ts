/** Connections of a listener are limited in total and per client; idle ones make room. With sockets that are not real. */
import { EventEmitter } from "node:events";
import type { Server } from "node:http";
import type { Socket } from "node:net";
import { describe, expect, it } from "vitest";
import { type ConnectionLimitOptions, limitConnections, setIdleRule } from "../../../src/shared/connection-limits.js";
import { fileBudget } from "../../../src/shared/open-files.js";
import { createSimulatedClock } from "../../support/simulated-clock.js";

class TestSocket extends EventEmitter {
  destroyed = false;
  constructor(readonly remoteAddress: string) {
    super();
  }

  destroy(): void {
    if (this.destroyed) return;
    this.destroyed = true;
    this.emit("close");
  }
}

function listenerWith(options: Partial<ConnectionLimitOptions> & { total: number }) {
  const server = new EventEmitter();
  const clock = createSimulatedClock();
  const shed: string[] = [];
  const lines: object[] = [];
  server.on("connection", () => {});
  limitConnections(server as Server, {
    name: "listen",
    shed: (reason) => void shed.push(reason),
    log: { warn: (fields) => void lines.push(fields) },
    clock,
    ...options,
  });
  function open(address: string, isBusy = false): TestSocket {
    const socket = new TestSocket(address);
    if (isBusy) setIdleRule(socket as unknown as Socket, () => undefined);
    server.emit("connection", socket);
    return socket;
  }
  const openMany = (count: number, address: string, isBusy = false) =>
    Array.from({ length: count }, () => open(address, isBusy));
  return { open, openMany, shed, lines, clock };
}

const stillOpen = (sockets: TestSocket[]) => sockets.filter(({ destroyed }) => !destroyed).length;

describe("one client", () => {
  it("may have no more connections than are free, and gets new ones instead of its idle ones", () => {
    const { open, openMany, shed } = listenerWith({ total: 100 });
    const many = openMany(200, "1.1.1.1");
    expect(stillOpen(many)).toBe(50);
    expect(many.at(-1)!.destroyed).toBe(false);
    expect(new Set(shed)).toEqual(new Set(["idle"]));
    expect(open("2.2.2.2").destroyed).toBe(false);
  });

  it("is refused further ones while all are in use, and others are not", () => {
    const { open, openMany, shed } = listenerWith({ total: 100, perClient: () => 10 });
    expect(stillOpen(openMany(20, "1.1.1.1", true))).toBe(10);
    expect(shed).toEqual(Array<string>(10).fill("client"));
    expect(stillOpen(openMany(10, "2.2.2.2", true))).toBe(10);
    expect(open("1.1.1.1").destroyed).toBe(true);
  });

  it("is a whole IPv6 /64", () => {
    const { open } = listenerWith({ total: 100, perClient: () => 1 });
    open("2001:db8::1", true);
    expect(open("2001:db8::2").destroyed).toBe(true);
    expect(open("2001:db8:0:1::1").destroyed).toBe(false);
  });

  it("that is a trusted hop may have all", () => {
    const { openMany } = listenerWith({ total: 100, perClient: () => 10, isTrusted: (one) => one === "10.0.0.1" });
    expect(stillOpen(openMany(110, "10.0.0.1", true))).toBe(100);
  });
});

describe("when all connections are in use", () => {
  it("a newcomer gets the idle one of the client that has most", () => {
    const { open, openMany, shed } = listenerWith({ total: 10, isTrusted: () => true });
    const few = openMany(3, "1.1.1.1");
    const most = openMany(7, "2.2.2.2");
    expect(open("3.3.3.3").destroyed).toBe(false);
    expect([stillOpen(few), stillOpen(most), shed]).toEqual([3, 6, ["idle"]]);
  });

  it("and the client that has most uses all of its own, a newcomer gets an idle one of another client", () => {
    const { open, openMany } = listenerWith({ total: 10, isTrusted: () => true });
    const idle = openMany(1, "1.1.1.1");
    const others = openMany(3, "2.2.2.2", true);
    const most = openMany(6, "3.3.3.3", true);
    expect(open("4.4.4.4", true).destroyed).toBe(false);
    expect([stillOpen(idle), stillOpen(others), stillOpen(most)]).toEqual([0, 3, 6]);
    expect(open("4.4.4.4").destroyed).toBe(true);
  });

  it("and most of thousands are in use, of a proxy or of many clients, newcomers get idle ones of others", () => {
    for (const isTrusted of [(one: string) => one === "10.0.0.1", () => false]) {
      const { open } = listenerWith({ total: 3_000, isTrusted });
      for (let n = 0; n < 2_600; n++) {
        open(isTrusted("10.0.0.1") ? "10.0.0.1" : `10.${n >> 8}.${n & 255}.1`, true);
      }
      const idle = Array.from({ length: 400 }, (_, n) => open(`11.${n >> 8}.${n & 255}.1`));
      for (let n = 0; n < 100; n++) expect(open(`12.0.${n}.1`, true).destroyed).toBe(false);
      expect(stillOpen(idle)).toBe(300);
    }
  });

  it("idle connections of a trusted hop are not closed while a stranger has one", () => {
    const { open, openMany } = listenerWith({ total: 100, isTrusted: (one) => one === "10.0.0.1" });
    const hop = openMany(90, "10.0.0.1");
    const stranger = openMany(10, "1.1.1.1");
    openMany(8, "2.2.2.2");
    expect(stillOpen(hop)).toBe(90);
    expect(stillOpen(stranger)).toBeLessThan(10);
    expect(open("10.0.0.1").destroyed).toBe(false);
  });

  it("and none is idle, a newcomer is refused; the log has few lines", async () => {
    const { open, openMany, shed, lines, clock } = listenerWith({ total: 10, isTrusted: () => true });
    const [first] = openMany(10, "1.1.1.1", true);
    for (let n = 0; n < 50; n++) expect(open("3.3.3.3").destroyed).toBe(true);
    expect(shed).toEqual(Array<string>(50).fill("total"));
    expect(lines).toHaveLength(1);
    await clock.advance(10_000);
    expect(lines).toHaveLength(2);
    expect(lines[1]).toMatchObject({ refused: 50, open: 10 });
    first!.destroy();
    expect(open("3.3.3.3").destroyed).toBe(false);
  });
});

it("descriptors: a part stays free for the store, files and pipes", () => {
  const { clients, upstreams, envoy } = fileBudget(1_024);
  expect(clients + upstreams + envoy).toBeLessThanOrEqual(1_024 - 128);
  expect(fileBudget(0).clients).toBe(Number.POSITIVE_INFINITY);
});
