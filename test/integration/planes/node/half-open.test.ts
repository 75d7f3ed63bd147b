/** An end that vanishes without a word is found by TCP keep-alive; its slot is freed once. In a network of its own. */
import { execFile, spawnSync } from "node:child_process";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { expect, it } from "vitest";

const program = fileURLToPath(new URL("../../../support/ws-half-open.ts", import.meta.url));
const inOwnNetwork = ["--map-root-user", "--net"];
/** Only where the system lets us have one. */
const possible = spawnSync("unshare", [...inOwnNetwork, "ip", "link", "set", "lo", "up"]).status === 0;

const shows = possible
  ? "a client and a backend that have vanished are missed, others are not"
  : "NOT SHOWN HERE, as this system gives no network of one's own: half-open connections";

it(shows, async () => {
  if (!possible) {
    console.warn(shows);
    return;
  }
  const args = [...inOwnNetwork, process.execPath, "--import", "tsx", program];
  const { stdout } = await promisify(execFile)("unshare", args);
  expect(JSON.parse(stdout)).toEqual({
    releases: [1, 1, 0],
    open: 1,
    seenByBackend: 1,
    lostBackendIsClosed: true,
    stayingIsOpen: true,
    lostClientKnows: false,
  });
});
