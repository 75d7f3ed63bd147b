/** TCP keep-alive detects peers that vanished without closing, and their slots are released once. Runs in a separate network namespace. */
import { execFile, spawnSync } from "node:child_process";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { expect, it } from "vitest";

const program = fileURLToPath(new URL("../../../support/ws-half-open.ts", import.meta.url));
const inOwnNetwork = ["--map-root-user", "--net"];
/** Whether this system allows the test to create a network namespace. */
const possible = spawnSync("unshare", [...inOwnNetwork, "ip", "link", "set", "lo", "up"]).status === 0;

const shows = possible
  ? "connections of a vanished client and a vanished backend are closed and their slots released; others stay open"
  : "NOT TESTED HERE, because this system does not allow network namespaces: half-open connections";

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
