/** Pods found by DNS: they follow the lookup results, and stay if a lookup fails. */
import { beforeEach, describe, expect, it, vi } from "vitest";
import { createPodDirectory, type PodChange, type PodSource } from "../../../src/slots/pods.js";
import { createSimulatedClock } from "../../support/simulated-clock.js";
import { waitFor } from "../../support/wait-for.js";

beforeEach(() => {
  vi.spyOn(Math, "random").mockReturnValue(0.5);
});

const sockets: PodSource = { name: "sockets.default.svc", port: 9101, intervalMs: 5_000 };

function directory(sources: Record<string, PodSource> = { sockets }) {
  const clock = createSimulatedClock();
  const answers = new Map<string, string[] | Error>([["sockets.default.svc", ["10.0.0.2", "10.0.0.1"]]]);
  const asked: string[] = [];
  const failures: unknown[] = [];
  const changes: PodChange[] = [];
  const pods = createPodDirectory({
    ...{ sources, clock },
    async resolve(name) {
      asked.push(name);
      const answer = answers.get(name) ?? new Error("ENOTFOUND");
      if (answer instanceof Error) throw answer;
      return answer;
    },
    changed: (change) => changes.push(change),
    failed: (_, error) => failures.push(error),
  });
  return { clock, answers, asked, failures, changes, pods };
}

describe("pods found by DNS", () => {
  it("are known after the first lookup, sorted and distinct; IPv6 in brackets", async () => {
    const { clock, answers, pods, changes } = directory();
    answers.set("sockets.default.svc", ["10.0.0.2", "fd00::1", "10.0.0.1", "10.0.0.2"]);
    expect(pods.pods("sockets")).toBeUndefined();
    await clock.advance(1);
    expect(pods.pods("sockets")).toEqual(["10.0.0.1:9101", "10.0.0.2:9101", "[fd00::1]:9101"]);
    expect(changes.map(({ came, left }) => [came.length, left])).toEqual([[3, []]]);
  });

  it("are looked up at their interval; only changes are reported", async () => {
    const { clock, answers, asked, changes, pods } = directory();
    await clock.advance(21_000);
    expect(asked.length).toBe(5);
    expect(changes.length).toBe(1);
    answers.set("sockets.default.svc", ["10.0.0.3", "10.0.0.1"]);
    await clock.advance(5_000);
    expect(changes.at(-1)).toEqual({
      ...{ upstream: "sockets", pods: ["10.0.0.1:9101", "10.0.0.3:9101"] },
      came: ["10.0.0.3:9101"],
      left: ["10.0.0.2:9101"],
    });
    answers.set("sockets.default.svc", ["10.0.0.2"]);
    await clock.advance(5_000);
    expect(changes.at(-1)).toMatchObject({ came: ["10.0.0.2:9101"] });
    expect(pods.pods("sockets")).toEqual(["10.0.0.2:9101"]);
  });

  it("stay if the lookup fails or returns nothing, and are looked up again", async () => {
    const { clock, answers, changes, failures, pods } = directory();
    await clock.advance(1);
    answers.set("sockets.default.svc", new Error("SERVFAIL"));
    await clock.advance(11_000);
    expect(failures.length).toBe(2);
    answers.set("sockets.default.svc", []);
    await clock.advance(5_000);
    expect(pods.pods("sockets")).toEqual(["10.0.0.1:9101", "10.0.0.2:9101"]);
    expect(changes.length).toBe(1);
    answers.set("sockets.default.svc", ["10.0.0.9"]);
    await clock.advance(5_000);
    expect(pods.pods("sockets")).toEqual(["10.0.0.9:9101"]);
  });

  it("follow the configuration: unchanged sources keep their pods, a new name is looked up at once", async () => {
    const { clock, answers, changes, pods, asked } = directory();
    await clock.advance(1);
    answers.set("other.svc", ["10.1.0.1"]);
    pods.reconfigure({ sockets: { ...sockets, intervalMs: 60_000 }, other: { ...sockets, name: "other.svc" } });
    expect(pods.pods("sockets")?.length).toBe(2);
    await clock.advance(1);
    expect(pods.pods("other")).toEqual(["10.1.0.1:9101"]);
    pods.reconfigure({ other: { ...sockets, name: "other.svc" } });
    expect(pods.pods("sockets")).toBeUndefined();
    const before = asked.filter((name) => name === "sockets.default.svc").length;
    await clock.advance(120_000);
    expect(asked.filter((name) => name === "sockets.default.svc").length).toBe(before);
    expect(changes.map(({ upstream }) => upstream)).toEqual(["sockets", "other"]);
    pods.close();
    const after = asked.length;
    await clock.advance(120_000);
    expect(asked.length).toBe(after);
  });

  it("a result that arrives after the name was changed is dropped", async () => {
    const clock = createSimulatedClock();
    let answer: (addresses: string[]) => void = () => {};
    const pods = createPodDirectory({
      ...{ sources: { sockets }, clock },
      resolve: (name) =>
        name === "new.svc"
          ? Promise.resolve(["10.9.9.9"])
          : new Promise((resolve) => {
              answer = resolve;
            }),
    });
    await clock.advance(1);
    pods.reconfigure({ sockets: { ...sockets, name: "new.svc" } });
    await clock.advance(1);
    answer(["10.0.0.1"]);
    await clock.advance(1);
    expect(pods.pods("sockets")).toEqual(["10.9.9.9:9101"]);
  });

  it("are looked up with the system resolver by default", async () => {
    const pods = createPodDirectory({ sources: { local: { name: "localhost", port: 80, intervalMs: 60_000 } } });
    await waitFor("the first lookup", () => pods.pods("local") !== undefined);
    expect(pods.pods("local")?.some((pod) => pod === "127.0.0.1:80" || pod === "[::1]:80")).toBe(true);
    pods.close();
  });
});
