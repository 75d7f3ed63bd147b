/** Sends the releases of ended connections. */
import { ANSWERED, NOT_CONFIGURED } from "../../../engine/slots/contact.js";
import { storeFailed } from "../../../engine/slots/keeper.js";
import { nextReleases, releasesAcknowledged } from "../../../engine/slots/releases.js";
import { pcall } from "../../lua/library.js";
import { ngx } from "../ngx.js";
import { worker } from "../state.js";
import { releaseSlots } from "./slot-calls.js";
import { sockets } from "./state.js";

/** After this turn of the event loop, so connections that end in it share a call. For phases that cannot wait. */
export function sendReleasesSoon(): void {
  const { contact, releases } = sockets.keeper;
  if (sockets.releasing || contact.away || releases.waiting.length === 0) return;
  // If no timer is available, the next beat sends them.
  const [set] = ngx.timer.at(0, onReleaseTimer);
  sockets.releasing = set === true;
}

function onReleaseTimer(_premature: boolean): void {
  sendGuarded();
}

/** Sends all waiting releases, unless they are already being sent. Returns false if that failed. */
export function sendReleases(): boolean {
  return sockets.releasing || sendGuarded();
}

function sendGuarded(): boolean {
  sockets.releasing = true;
  const [fine, sent] = pcall(sendAll);
  sockets.releasing = false;
  if (fine) return sent;
  ngx.log(ngx.ERR, "tollgate: slots were not released: ", sent);
  return false;
}

function sendAll(): boolean {
  const { releases } = sockets.keeper;
  while (releases.waiting.length > 0) {
    const batch = nextReleases(releases);
    const outcome = releaseSlots(batch.proxy, batch.slots, worker.options.timeoutMs);
    // A service without connections has nothing to release.
    if (outcome !== ANSWERED && outcome !== NOT_CONFIGURED) {
      storeFailed(sockets.keeper, outcome);
      return false;
    }
    releasesAcknowledged(releases, batch);
  }
  return true;
}
