/** The frame of the dashboard: sign-in, navigation, the state of the service, and the open view. */
import { useEffect, useState } from "preact/hooks";
import type { SessionReply, State } from "../../src/service/dashboard/contract.js";
import { getSession, isAppId, type Live, signOut, useLive } from "./api.js";
import { duration } from "./format.js";
import { Icon, type IconName } from "./parts/icons.js";
import { Badge, Banner, Loading, type Tone } from "./parts/parts.js";
import { SignIn } from "./sign-in.js";
import { useTheme } from "./theme.js";
import { ActionsView } from "./views/actions.js";
import { AppDetail } from "./views/app-detail.js";
import { AppsView } from "./views/apps.js";
import { ConfigurationView } from "./views/configuration.js";
import { ConnectionsView } from "./views/connections.js";
import { FlowView } from "./views/flow.js";
import { LimitDetail, LimitsView } from "./views/limits.js";
import { NodesView } from "./views/nodes.js";
import { Overview } from "./views/overview.js";

interface View {
  id: string;
  title: string;
  icon: IconName;
}

const views: readonly View[] = [
  { id: "overview", title: "Overview", icon: "overview" },
  { id: "flow", title: "Token flow", icon: "flow" },
  { id: "apps", title: "Apps", icon: "apps" },
  { id: "limits", title: "Limits", icon: "limits" },
  { id: "connections", title: "Connections", icon: "connections" },
  { id: "nodes", title: "Nodes", icon: "nodes" },
  { id: "config", title: "Configuration", icon: "config" },
  { id: "actions", title: "Actions", icon: "actions" },
];

export function App() {
  const [session, setSession] = useState<SessionReply | "none" | undefined>();
  const [notice, setNotice] = useState("");
  useEffect(() => {
    void getSession().then((result) => setSession(result.ok ? result.value : "none"));
  }, []);
  if (session === undefined) return <Loading />;
  const ended = () => {
    setNotice("Your session has ended. Sign in again.");
    setSession("none");
  };
  if (session === "none") return <SignIn notice={notice} signedIn={setSession} />;
  return <Frame session={session} ended={ended} />;
}

/** The part of the address after #/. */
function useRoute(): string {
  const read = () => location.hash.replace(/^#\/?/, "") || "overview";
  const [route, setRoute] = useState(read);
  useEffect(() => {
    const changed = () => setRoute(read());
    window.addEventListener("hashchange", changed);
    return () => window.removeEventListener("hashchange", changed);
  }, []);
  return route;
}

function Frame({ session, ended }: { session: SessionReply; ended(): void }) {
  const route = useRoute();
  const open = views.find(({ id }) => route === id || route.startsWith(`${id}/`)) ?? views[0]!;
  const live = useLive(topicOf(route), ended);
  const [theme, toggle] = useTheme();
  useEffect(() => {
    document.title = `${open.title} · ${session.node_id} · Tollgate`;
    // On small screens the navigation scrolls sideways.
    document.querySelector("nav [aria-current]")?.scrollIntoView({ block: "nearest", inline: "nearest" });
  }, [open, session]);
  const leave = async () => {
    await signOut();
    location.reload();
  };
  return (
    <div class="frame">
      <button type="button" class="skip" onClick={() => document.getElementById("main")?.focus()}>
        Skip to content
      </button>
      <aside class="side">
        <a class="brand" href="#/overview">
          <Logo /> Tollgate
        </a>
        <nav aria-label="Views">
          {views.map(({ id, title, icon }) => (
            <a key={id} href={`#/${id}`} aria-current={id === open.id ? "page" : undefined}>
              <Icon name={icon} /> {title}
            </a>
          ))}
        </nav>
        <div class="side-foot">
          <span>
            {session.operator}
            {session.can_change ? "" : " (read-only)"}
          </span>
          <button
            type="button"
            class="icon-button"
            onClick={toggle}
            aria-label={`Use the ${theme === "dark" ? "light" : "dark"} theme`}
          >
            <Icon name={theme === "dark" ? "sun" : "moon"} />
          </button>
          <button type="button" class="icon-button" onClick={() => void leave()} aria-label="Sign out">
            <Icon name="out" />
          </button>
        </div>
      </aside>
      <main id="main" tabIndex={-1}>
        <ServiceLine session={session} live={live} />
        <Banners live={live} />
        <Content route={route} live={live} session={session} />
      </main>
    </div>
  );
}

export function Logo() {
  return (
    <svg width="26" height="26" viewBox="0 0 32 32" aria-hidden="true">
      <rect width="32" height="32" rx="8" class="logo-back" />
      <path d="M9 25V11M9 12.5 25 7.5" class="logo-line" />
      <circle cx="9" cy="12" r="3" class="logo-dot" />
    </svg>
  );
}

/** The name of the view, and the id of an app. */
function parts(route: string): [string, string] {
  const [name = "", id = ""] = route.split("/", 2);
  try {
    return [name, decodeURIComponent(id)];
  } catch {
    return [name, ""];
  }
}

/** What the server collects for this route. */
function topicOf(route: string): string {
  const [name, id] = parts(route);
  if (name === "apps" && isAppId(id)) return `app/${id}`;
  return ["flow", "connections", "nodes"].includes(name) ? name : "overview";
}

function Content({ route, live, session }: { route: string; live: Live; session: SessionReply }) {
  const { state, points, traffic, failed } = live;
  const [name, id = ""] = parts(route);
  // A banner says why there is nothing.
  const waiting = failed === "" && <Loading rows={6} />;
  if (state === undefined) return waiting;
  if (name === "flow") return <FlowView state={state} waiting={waiting} />;
  if (name === "apps" && id === "") return <AppsView />;
  if (name === "apps") return <AppDetail key={id} id={id} state={state} traffic={traffic} waiting={waiting} />;
  if (name === "limits") return id === "" ? <LimitsView /> : <LimitDetail key={id} name={id} />;
  if (name === "connections") return <ConnectionsView state={state} waiting={waiting} />;
  if (name === "nodes") return <NodesView state={state} waiting={waiting} />;
  if (name === "config") return <ConfigurationView />;
  if (name === "actions") return <ActionsView state={state} session={session} />;
  return <Overview state={state} points={points} />;
}

const modes: Record<State["overview"]["status"]["mode"], [Tone, string]> = {
  normal: ["good", "Normal"],
  degraded: ["warn", "Degraded"],
  emergency: ["bad", "Emergency"],
};

function emergencyTitle({ source, operator }: State["overview"]["status"]["emergency"]): string {
  return source === "automatic"
    ? "Emergency, started automatically"
    : `Emergency, started by ${operator || "an operator"}`;
}

function ServiceLine({ session, live: { state, connection } }: { session: SessionReply; live: Live }) {
  const status = state?.overview.status;
  const [tone, mode] = status === undefined ? (["neutral", "Connecting"] as const) : modes[status.mode];
  return (
    <div class="service-line">
      <strong class="service-name">{session.node_id}</strong>
      <Badge tone={tone}>{mode}</Badge>
      <span class="service-facts num">
        v{session.version}
        {status !== undefined && ` · up ${duration(status.uptime_seconds)}`}
      </span>
      <span class={`live live-${connection}`} role="status">
        <i /> {connection === "live" ? "Live" : connection === "lost" ? "Reconnecting…" : "Connecting…"}
      </span>
    </div>
  );
}

function Banners({ live }: { live: Live }) {
  const { state, connection, failed } = live;
  const { overview } = state ?? {};
  return (
    <div class="banners">
      {connection === "lost" && (
        <Banner tone="bad" title="No live data">
          The service does not answer. The numbers below are the last ones received; the page reconnects by itself.
        </Banner>
      )}
      {failed !== "" && (
        <Banner tone="bad" title="The service could not collect the data">
          {failed}
        </Banner>
      )}
      {overview?.store.answers === false && (
        <Banner tone="bad" title="The store does not answer">
          Gateways decide by each app's on_store_failure policy. Balances and leases are unknown until it is back.
        </Banner>
      )}
      {overview?.status.emergency_mode === true && (
        <Banner tone="bad" title={emergencyTitle(overview.status.emergency)}>
          {overview.status.emergency.reason !== "" && `Reason: ${overview.status.emergency.reason}. `}
          Limits depend on the priority of each app
          {overview.status.emergency.seconds_left > 0
            ? `; ${duration(overview.status.emergency.seconds_left)} left.`
            : overview.status.emergency.source === "automatic"
              ? "; until usage is below 80 %."
              : "; until it is turned off."}
        </Banner>
      )}
      {overview?.status.emergency_mode === false && overview.status.emergency.bursts_stopped && (
        <Banner tone="warn" title="Bursts and borrowing are stopped">
          95 % of the cluster's bucket are used. Apps keep their own rates.
        </Banner>
      )}
      {overview !== undefined && overview.status.degradation_level > 0 && (
        <Banner tone="warn" title={`Degradation level ${overview.status.degradation_level}`}>
          {overview.status.degradation_pinned_until === null
            ? "The store is slow or returns errors."
            : `Pinned by an operator until ${new Date(overview.status.degradation_pinned_until).toLocaleTimeString("en-GB")}.`}
        </Banner>
      )}
      {overview?.config_error != null && (
        <Banner tone="warn" title="The last configuration was rejected">
          {overview.config_error}
        </Banner>
      )}
    </div>
  );
}
