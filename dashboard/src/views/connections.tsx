/** Connections: slots per route and pod. */
import type { ComponentChildren } from "preact";
import type { State } from "../../../src/service/dashboard/contract.js";
import type { ConnectionsReply } from "../../../src/service/operations/contract/contract.js";
import { count, percent, plural, words } from "../format.js";
import { Banner, Bar, Card, Empty, PageHead, Tile, type Tone } from "../parts/parts.js";

export function ConnectionsView({ state, waiting }: { state: State; waiting: ComponentChildren }) {
  const { connections, overview } = state;
  return (
    <>
      <PageHead title="Connections" />
      {connections === undefined ? (
        waiting
      ) : (
        <Connections reply={connections} refusals={overview.connection_refusals} />
      )}
    </>
  );
}

type Refusals = State["overview"]["connection_refusals"];

function Connections({ reply, refusals }: { reply: ConnectionsReply; refusals: Refusals }) {
  if (reply.routes.length === 0 && reply.unavailable.length === 0) {
    return (
      <Card title="Routes">
        <Empty icon="connections" title="No route accepts connections">
          Add a connections section to a route to allow WebSockets with a limited number of slots per pod.
        </Empty>
      </Card>
    );
  }
  const full = reply.pods.filter(({ connections, limit }) => connections >= limit).length;
  return (
    <>
      {reply.unavailable.length > 0 && (
        <Banner tone="bad" title="The store does not answer for some routes">
          {reply.unavailable.join(", ")}
        </Banner>
      )}
      <dl class="tiles">
        <Tile
          label="Connections with a slot"
          value={count(reply.total)}
          note={`on ${plural(reply.pods.length, "pod")}`}
        />
        <Tile
          label="Full pods"
          value={count(full)}
          tone={full > 0 ? "warn" : "neutral"}
          note={`of ${count(reply.pods.length)}`}
        />
        <Tile label="Refused" value={count(reply.rejected)} note="since the store was created" />
      </dl>
      {reply.routes.map((route) => (
        <Card
          key={route.route}
          title={route.route}
          action={
            <span class="num text-faint">
              {count(route.connections)}
              {route.limit > 0 ? ` of ${count(route.limit)}` : ""}
              {route.max_per_client > 0 ? ` · at most ${count(route.max_per_client)} per client` : ""} ·{" "}
              {count(route.rejected)} refused
            </span>
          }
        >
          <ul class="pods">
            {reply.pods
              .filter((pod) => pod.route === route.route)
              .map(({ pod, connections, limit, upstream }) => (
                <li key={pod} class={`pod pod-${toneOf(connections, limit)}`} title={`${pod} (${upstream})`}>
                  <span class="pod-name">{pod.replace(/^https?:\/\//, "")}</span>
                  <span class="pod-count num">
                    {count(connections)}
                    <span class="text-faint"> / {count(limit)}</span>
                  </span>
                  <Bar
                    share={connections / Math.max(limit, 1)}
                    label={`Slots of ${pod}: ${percent(connections / Math.max(limit, 1))} used`}
                    tone={toneOf(connections, limit)}
                  />
                </li>
              ))}
          </ul>
        </Card>
      ))}
      <Card title="Refusals by reason">
        {refusals.length === 0 ? (
          <p class="quiet">This service refused no connection since it started.</p>
        ) : (
          <ul class="reasons">
            {refusals.map(({ code, total }) => (
              <li key={code}>
                <span>{words(code)}</span>
                <span class="num">{count(total)}</span>
              </li>
            ))}
          </ul>
        )}
      </Card>
    </>
  );
}

function toneOf(connections: number, limit: number): Tone {
  if (connections >= limit) return "bad";
  return connections >= limit * 0.8 ? "warn" : "good";
}
