/** File changes are detected: written in place, renamed, or replaced behind a symbolic link. */
import { mkdirSync, renameSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterEach, describe, expect, it } from "vitest";
import { createEmbeddedStore } from "../../../src/store/embedded/embedded-store.js";
import { waitFor } from "../../support/wait-for.js";
import { type LiveNode, liveNodes } from "../../unit/config/live-node.js";

const nodes = liveNodes();
afterEach(() => nodes.close());

const text = (tokens: number) => `fail_open_tokens: ${tokens}\n`;
const start = (file?: string): Promise<LiveNode> =>
  nodes.start({
    yaml: text(5),
    store: createEmbeddedStore(),
    watchFile: true,
    ...(file === undefined ? {} : { file }),
  });
const follows = ({ live }: LiveNode, tokens: number) =>
  waitFor(`${tokens} tokens`, () => live.current().fail_open_tokens === tokens);

describe("a change of the file is applied", () => {
  it("when it is repeatedly written in place", async () => {
    const node = await start();
    for (const tokens of [6, 7, 8]) {
      node.write(text(tokens));
      await follows(node, tokens);
    }
    expect(node.changes).toHaveLength(3);
  });

  it("when another file is renamed to it, as editors do", async () => {
    const node = await start();
    for (const tokens of [6, 7]) {
      writeFileSync(`${node.file}.new`, text(tokens));
      renameSync(`${node.file}.new`, node.file);
      await follows(node, tokens);
    }
  });

  it("when it is removed and created again", async () => {
    const node = await start();
    rmSync(node.file);
    await waitFor("the error to be reported", () => node.live.lastError()?.includes("cannot be read"));
    expect(node.live.current().fail_open_tokens).toBe(5);
    node.write(text(6));
    await follows(node, 6);
    expect(node.live.lastError()).toBeUndefined();
  });

  it("when the directory behind a symbolic link is replaced, as Kubernetes does with a ConfigMap", async () => {
    const holder = await start();
    const mounted = (version: string, tokens: number) => {
      const folder = join(holder.folder, `..${version}`);
      mkdirSync(folder);
      writeFileSync(join(folder, "mounted.yaml"), text(tokens));
      symlinkSync(`..${version}`, join(holder.folder, "..new"));
      renameSync(join(holder.folder, "..new"), join(holder.folder, "..data"));
    };
    mounted("1", 5);
    const file = join(holder.folder, "mounted.yaml");
    symlinkSync("..data/mounted.yaml", file);
    const node = await start(file);
    mounted("2", 6);
    await follows(node, 6);
    rmSync(join(holder.folder, "..1"), { recursive: true });
    mounted("3", 7);
    await follows(node, 7);
  });

  it("when it is behind a symbolic link to another directory, which is not watched", async () => {
    const [here, there] = [await start(), await start()];
    const link = join(here.folder, "link.yaml");
    symlinkSync(there.file, link);
    const node = await start(link);
    there.write(text(6));
    await follows(node, 6);
  });

  it("only if it is valid and different", async () => {
    const node = await start();
    node.write("fail_open_tokens: -1\n");
    await waitFor("the error to be reported", () => node.live.lastError()?.includes("fail_open_tokens"));
    expect(node.live.current().fail_open_tokens).toBe(5);
    node.write(`# as before\n${text(5)}`);
    await waitFor("the error to be cleared", () => node.live.lastError() === undefined);
    expect(node.changes).toEqual([]);
    node.write(text(6));
    await follows(node, 6);
  });

  it("even if other files in its directory change all the time", async () => {
    const node = await start();
    const noise = setInterval(() => writeFileSync(join(node.folder, "noise"), String(Math.random())), 5);
    try {
      node.write(text(6));
      await follows(node, 6);
    } finally {
      clearInterval(noise);
    }
  });
});

describe("a closed configuration", () => {
  it("applies no further changes", async () => {
    const node = await start();
    await node.live.close();
    const other = await start(node.file);
    node.write(text(6));
    await follows(other, 6);
    expect(node.live.current().fail_open_tokens).toBe(5);
  });
});
