/** Upgrades that are given up at any point while everything around them fails: no slot, connection or request stays behind. */
import { connect, type Socket as TcpSocket } from "node:net";
import { afterAll, beforeAll, expect, test } from "vitest";
import { describeEnvoy } from "../support/envoy-binary.js";
import { type EnvoyFleet, startEnvoyFleet } from "../support/envoy-fleet.js";
import { createRandom } from "../support/random.js";
import { pause, waitFor } from "../support/wait-for.js";
import { upgradeHead } from "../support/ws-backend.js";

/** TOLLGATE_ATTACKS repeats it with more. */
const UPGRADES = Number(process.env.TOLLGATE_ATTACKS ?? 1_000);
const AT_A_TIME = 20;
const PODS = 3;
const SLOTS = 8;
const SEED = Number(process.env.SEED ?? 1);
const LONGEST_MS = 60;
/** A whole frame of the client, and the beginning of one. */
const FRAMES = [Buffer.from([0x81, 0x82, 0, 0, 0, 0, 0x68, 0x69]), Buffer.from([0x81, 0x85, 0, 0])];
/** An option of the listener. */
const HEADER_TIMES = [10_000, 11_000];

let fleet: EnvoyFleet;

describeEnvoy("WebSockets under attack", () => {
  beforeAll(async () => {
    const connections = `max_per_pod: ${SLOTS}, rate_per_second: 0, max_total: 0, lease_s: 3, on_store_failure: open`;
    fleet = await startEnvoyFleet({
      routes: [{ path: "/many/", pods: PODS, connections }],
      dynamic: true,
    });
  });
  afterAll(() => fleet.stop());

  test("1,000 upgrades are given up while pods, service and configuration change: nothing stays behind", async () => {
    const random = createRandom(SEED);
    const pids = fleet.envoys.map((envoy) => envoy.pid());
    let left = UPGRADES;
    let switched = 0;
    async function attack(): Promise<void> {
      while (left > 0) {
        left -= 1;
        switched += await giveUp(random);
      }
    }
    const attacks = Promise.all(Array.from({ length: AT_A_TIME }, attack));
    const faults = [podFails, serviceStops, newScript, newListener];
    for (let round = 0; left > 0; round++) await faults[round % faults.length]!(round);
    await attacks;
    // Each fault at least once, also if the upgrades were faster.
    for (const [round, fault] of faults.entries()) await fault(round);
    expect(switched).toBeGreaterThan(0);

    await waitFor("the pods to have no connections", () => fleet.live("/many/") === 0);
    await fleet.untilCounted("/many/", 0);
    await waitFor("all slots to be taken again", async () => {
      const { open } = await fleet.connect("/many/", PODS * SLOTS + 10);
      const counts = fleet.pods("/many/").map(({ live }) => live.size);
      for (const { socket } of open) socket.terminate();
      await fleet.untilCounted("/many/", 0);
      return open.length === PODS * SLOTS && counts.every((count) => count === SLOTS);
    });
    expect(fleet.envoys.map((envoy) => envoy.pid())).toEqual(pids);
    // When it exits, the module tells how many requests it still knows.
    for (const envoy of fleet.envoys) {
      envoy.signal("SIGTERM");
      await waitFor("Envoy to exit", () => !isRunning(envoy.pid()));
      expect(envoy.log()).not.toContain("are not finished");
      expect(envoy.log()).not.toMatch(/\[(error|critical)\]/);
    }
  });
});

/** Begins an upgrade and destroys its connection at a random point. Returns 1 if it was switched by then. */
async function giveUp(random: () => number): Promise<number> {
  const envoy = fleet.envoys[Math.floor(random() * fleet.envoys.length)]!;
  const socket: TcpSocket = connect(envoy.port, "127.0.0.1");
  let switched = 0;
  const answered = new Promise<void>((resolve) => {
    socket.once("data", (head) => {
      if (head.includes("101 ")) switched = 1;
      resolve();
    });
    socket.once("close", () => resolve());
    socket.once("error", () => resolve());
  });
  const head = upgradeHead({ path: "/many/" });
  const kind = Math.floor(random() * 4);
  const frame = FRAMES[Math.floor(random() * FRAMES.length)]!;
  const waitMs = random() * LONGEST_MS;
  if (kind === 0) {
    // Within the head.
    socket.write(head.slice(0, Math.floor(random() * head.length)));
    await Promise.race([answered, pause(waitMs)]);
  } else {
    socket.write(head);
    if (kind === 1) await Promise.race([answered, pause(waitMs)]);
    else {
      await Promise.race([answered, pause(100 * LONGEST_MS)]);
      if (switched === 1 && kind === 3) {
        socket.write(frame);
        await pause(waitMs);
      }
    }
  }
  if (random() < 0.5) socket.resetAndDestroy();
  else socket.destroy();
  return switched;
}

async function podFails(round: number): Promise<void> {
  const pod = fleet.pods("/many/")[round % PODS]!;
  await pod.die();
  await pause(200);
  await pod.revive();
}

async function serviceStops(): Promise<void> {
  fleet.service().signalAll("SIGSTOP");
  await pause(500);
  fleet.service().signalAll("SIGCONT");
}

async function newScript(): Promise<void> {
  await Promise.all(fleet.envoys.map((envoy) => envoy.reload()));
}

async function newListener(round: number): Promise<void> {
  const next = `timeouts: { headers_ms: ${HEADER_TIMES[Math.floor(round / 4) % HEADER_TIMES.length]!}, shutdown_ms`;
  await fleet.change((yaml) => `${yaml.replace(/timeouts: \{.*shutdown_ms/, next)}\n`);
}

function isRunning(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return true;
  } catch {
    return false;
  }
}
