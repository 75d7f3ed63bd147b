/** Pub/sub: every subscriber receives all messages in order, even if other handlers fail. */
import { expect } from "vitest";
import { waitFor } from "../support/wait-for.js";
import { type Bench, forEachBackend } from "./backends.js";

/** Makes a store call: the transcript of a test needs at least one, and messages do not count as calls. */
const channelOf = async (bench: Bench, name = "news") => {
  await bench.store.run("lock", [`{${bench.name}}lock`], ["a", 1000, 0]);
  return `${bench.name}:${name}`;
};

forEachBackend("messages", (it) => {
  it("reach every subscriber of their channel, in order, and no other", async (bench) => {
    const [channel, other] = [await channelOf(bench), await channelOf(bench, "other")];
    const received: string[][] = [[], [], []];
    await bench.store.subscribe(channel, (message) => received[0]?.push(message));
    await bench.store.subscribe(channel, (message) => received[1]?.push(message));
    await bench.store.subscribe(other, (message) => received[2]?.push(message));
    for (let i = 0; i < 20; i++) await bench.store.publish(channel, `m${i}`);
    await bench.store.publish(other, "end");
    await waitFor(
      "all messages",
      () => received[0]?.length === 20 && received[1]?.length === 20 && received[2]?.length === 1,
    );
    const all = Array.from({ length: 20 }, (_, i) => `m${i}`);
    expect(received).toEqual([all, all, ["end"]]);
  });

  it("carry any text", async (bench) => {
    const channel = await channelOf(bench);
    const texts = ["", "{}", "äöü – 你好 🙂", "two\r\nlines\0", "x".repeat(100_000)];
    const received: string[] = [];
    await bench.store.subscribe(channel, (message) => received.push(message));
    for (const text of texts) await bench.store.publish(channel, text);
    await waitFor("all messages", () => received.length === texts.length);
    expect(received).toEqual(texts);
  });

  it("are not delivered from within publish, nor after unsubscribing", async (bench) => {
    const channel = await channelOf(bench);
    const [stays, leaves]: [string[], string[]] = [[], []];
    const leave = await bench.store.subscribe(channel, (message) => leaves.push(message));
    await bench.store.subscribe(channel, (message) => stays.push(message));
    const sent = bench.store.publish(channel, "first");
    expect(stays).toEqual([]);
    await sent;
    await waitFor("the first", () => stays.length === 1 && leaves.length === 1);
    leave();
    leave();
    await bench.store.publish(channel, "second");
    await waitFor("the second", () => stays.length === 2);
    expect(leaves).toEqual(["first"]);
  });

  it("are received again after unsubscribing and subscribing", async (bench) => {
    const channel = await channelOf(bench);
    const received: string[] = [];
    const leave = await bench.store.subscribe(channel, (message) => received.push(`old ${message}`));
    leave();
    await bench.store.subscribe(channel, (message) => received.push(message));
    await bench.store.publish(channel, "news");
    await waitFor("the message", () => received.length > 0);
    expect(received).toEqual(["news"]);
  });

  it("reach all other handlers when one handler throws and another rejects", async (bench) => {
    const channel = await channelOf(bench);
    const received: string[] = [];
    const warnings: string[] = [];
    const note = (warning: Error) => warnings.push(warning.message);
    process.on("warning", note);
    try {
      await bench.store.subscribe(channel, () => {
        throw new Error("thrown by a handler");
      });
      await bench.store.subscribe(channel, async () => {
        throw new Error("rejected by a handler");
      });
      await bench.store.subscribe(channel, (message) => received.push(message));
      await bench.store.publish(channel, "one");
      await bench.store.publish(channel, "two");
      await waitFor("both messages", () => received.length === 2);
      await waitFor("all warnings", () => warnings.length === 4);
    } finally {
      process.off("warning", note);
    }
    expect(warnings.sort().join()).toBe(
      "rejected by a handler,rejected by a handler,thrown by a handler,thrown by a handler",
    );
  });
});

forEachBackend("a closed store", (it) => {
  it("rejects publish and subscribe", async (bench) => {
    const channel = await channelOf(bench);
    const received: string[] = [];
    await bench.store.subscribe(channel, (message) => received.push(message));
    await bench.store.close();
    await expect(bench.store.publish(channel, "late")).rejects.toMatchObject({ kind: "closed" });
    await expect(bench.store.subscribe(channel, () => {})).rejects.toMatchObject({ kind: "closed" });
    expect(received).toEqual([]);
  });
});
