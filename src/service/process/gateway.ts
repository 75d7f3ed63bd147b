/** One gateway: a limiter with its own lease on a store, the keeper of its connections, and the proxy they decide for. */

import { descriptorOptions } from "../../config/options/descriptors.js";
import { envoyServiceOptions } from "../../config/options/envoy-service.js";
import { appLimits, clusterOptions, identityOptions, limiterOptions } from "../../config/options/limits.js";
import { proxyOptions } from "../../config/options/proxy.js";
import { metricsOptions } from "../../config/options/service.js";
import { podSources, podsOf, slotOptions } from "../../config/options/slots.js";
import type { Config } from "../../config/schema.js";
import { configVersion } from "../../config/version.js";
import { createDescriptorLimiter } from "../../descriptors/descriptor-limiter.js";
import { createEnvoyService, type EnvoyService } from "../../envoy-service/envoy-service.js";
import { observeLimiter } from "../../envoy-service/observed-limiter.js";
import { createLimiter, type Limiter, type LimiterObserver } from "../../limiter/limiter.js";
import { createProxy, type ReverseProxy } from "../../planes/node/http/proxy.js";
import { createRateLimitAdmission, type RateLimitVerdict } from "../../planes/node/http/rate-limit-admission.js";
import type { Deciders } from "../../planes/node/options.js";
import { createQuota } from "../../quota/quota.js";
import { createAddressMatcher } from "../../shared/addresses.js";
import type { Log } from "../../shared/log.js";
import { createPodDirectory } from "../../slots/pods.js";
import { newProxyId } from "../../slots/proxy-id.js";
import { createSlotKeeper } from "../../slots/slot-keeper.js";
import type { SlotKeeperObserver } from "../../slots/slot-keeper-options.js";
import { createSlots } from "../../slots/slots.js";
import { observeStore } from "../../store/observed-store.js";
import type { Store } from "../../store/store.js";
import { createConnectionTally, tallyKeeper } from "../metrics/connection-numbers.js";
import type { Answers, Question } from "../metrics/node-report.js";
import { observeAdmission } from "../metrics/observed-admission.js";
import { createTelemetry } from "../metrics/telemetry.js";
import { createDecisionLog } from "./log.js";

export interface Gateway {
  readonly proxy: ReverseProxy<RateLimitVerdict>;
  readonly limiter: Limiter;
  /** For Envoys; not listening yet, and never where the configuration has no place for it. */
  readonly envoy: EnvoyService;
  /** All of it at once, between two requests; what runs goes on. */
  reconfigure(config: Config): void;
  answer(question: Question): Answers[Question["kind"]];
  /** Finishes what runs within the time, then returns all tokens and slots. The store stays open. */
  stop(graceMs: number): Promise<void>;
}

export interface GatewayOptions {
  config: Config;
  /** This process among all that share the limits. */
  node: string;
  store: Store;
  log: Log;
}

export function createGateway({ config: initial, node, store: plainStore, log }: GatewayOptions): Gateway {
  let config = initial;
  const telemetry = createTelemetry({ node, ...metricsOptions(config) });
  const store = observeStore(plainStore, telemetry.storeObserver);
  const quota = createQuota(store, clusterOptions(config));
  const limiter = createLimiter({
    node,
    ...limiterOptions(config),
    target: quota,
    observer: { ...logObserver(log), ...telemetry.observer, synced: bothSynced(log, telemetry.observer) },
  });
  const tally = createConnectionTally();
  const proxyId = newProxyId(node);
  const slots = createSlots(store);
  const keeper = createSlotKeeper({
    ...slotOptions(config),
    slots,
    proxy: proxyId,
    liveProxies: () => limiter.stats().liveNodes,
    observer: { ...keeperLog(log), ...tallyKeeper(tally) },
  });
  const decisions = createDecisionLog({ log, perSecond: () => config.log.refusals_per_second });
  const proxy = createProxy({ ...proxyOptions(config), ...deciders(), log });
  const forEnvoy = observeLimiter({ limiter, telemetry, log: decisions, slowMs: () => config.log.slow_decision_ms });
  const descriptors = createDescriptorLimiter({ limiter: forEnvoy, ...descriptorOptions(config) });
  const envoy = createEnvoyService(envoyServiceOptions(config), {
    limiter: forEnvoy,
    descriptors,
    slots,
    discoveredPods: (upstream) => directory.pods(upstream),
    observer: { ...keeperLog(log), ...tallyKeeper(tally) },
    log,
  });
  const directory = createPodDirectory({
    sources: podSources(config),
    failed: (upstream, error) => log.warn({ upstream, err: error }, "a name was not found: its last pods stay"),
  });
  directory.onChange(({ upstream, pods, came, left }) => {
    log.info({ upstream, pods: pods.length, came: came.length, left: left.length }, "pods come and go");
    proxy.setTargets(upstream, pods);
  });

  function deciders(): Deciders<RateLimitVerdict> {
    const identity = identityOptions(config);
    const configured = new Set(appLimits(config).map(({ id }) => id));
    const admission = createRateLimitAdmission({
      ...identity,
      limiter,
      isTrustedHop: createAddressMatcher(identity.trustedHops),
      isConfigured: (app) => configured.has(app),
    });
    return {
      admission: observeAdmission({ admission, telemetry, log: decisions, slowMs: () => config.log.slow_decision_ms }),
      upgrades: { admission: keeper, appOf: ({ decision }) => decision.app },
    };
  }

  function reconfigure(changed: Config): void {
    config = changed;
    telemetry.reconfigure(metricsOptions(config));
    quota.reconfigure(clusterOptions(config));
    limiter.reconfigure({ ...limiterOptions(config), target: quota });
    descriptors.reconfigure(descriptorOptions(config));
    envoy.reconfigure(envoyServiceOptions(config));
    keeper.reconfigure(slotOptions(config));
    proxy.reconfigure({ ...proxyOptions(config), ...deciders() });
    directory.reconfigure(podSources(config));
  }

  function connectionNumbers() {
    const limits = new Map(
      podsOf(config, directory.pods).map(({ pod, upstream, limit }) => [pod, { upstream, limit }]),
    );
    const { pods, active } = keeper.stats();
    const held = new Map(pods.map((one) => [one.pod, one]));
    const envoys = envoy.connections.stats();
    const names = new Set([...limits.keys(), ...held.keys(), ...envoys.pods.keys()]);
    return {
      pods: [...names].map((pod) => ({
        ...{ pod, upstream: limits.get(pod)?.upstream ?? "" },
        active: (held.get(pod)?.active ?? 0) + (envoys.pods.get(pod) ?? 0),
        limit: limits.get(pod)?.limit ?? held.get(pod)?.limit ?? 0,
      })),
      proxies: [
        ...(limits.size === 0 ? [] : [{ proxy: node, active }]),
        ...[...envoys.nodes].map(([proxy, open]) => ({ proxy, active: open })),
      ],
      tally,
    };
  }

  return {
    proxy,
    limiter,
    envoy,
    reconfigure,
    answer(question) {
      switch (question.kind) {
        case "report":
          return telemetry.report(limiter, {
            configVersion: configVersion(config),
            connections: proxy.openConnections() + envoy.openConnections(),
          });
        case "apps":
          return telemetry.appReports(question.apps, limiter);
        case "metrics":
          return telemetry.metrics(limiter, connectionNumbers());
      }
    },
    async stop(graceMs) {
      directory.close();
      keeper.drain();
      await Promise.all([proxy.drain(graceMs), envoy.close(graceMs)]);
      descriptors.close();
      // Exchanges settle until the last of them has ended; only then is it known what is left to return.
      await Promise.all([limiter.close(), keeper.close(), envoy.connections.close()]);
      decisions.close();
      telemetry.close();
    },
  };
}

function logObserver(log: Log): LimiterObserver {
  return {
    levelChanged(level, before) {
      if (level > before) log.warn({ degradation: level, before }, "the store answers badly");
      else log.info({ degradation: level, before }, "the store answers better");
    },
    emergencyChanged: (active) => log.warn({ active }, active ? "emergency begins" : "emergency ends"),
  };
}

function bothSynced(log: Log, counted: LimiterObserver): NonNullable<LimiterObserver["synced"]> {
  return (outcome, milliseconds, apps, error) => {
    counted.synced?.(outcome, milliseconds, apps, error);
    if (outcome !== "ok") log.debug({ outcome, ms: Math.round(milliseconds), apps, err: error }, "a sync failed");
  };
}

function keeperLog(log: Log): SlotKeeperObserver {
  return {
    contactChanged(away, error) {
      if (away) log.warn({ err: error }, "connections are kept without the store");
      else log.info({}, "connections are kept with the store again");
    },
    stateLost: () => log.warn({}, "the store lost its connection slots: all connections are renewed"),
    closed: (pod, code) => log.warn({ pod, code }, "a connection lost its slot, and is closed"),
    failed: (doing, error) => log.debug({ doing, err: error }, "a call for connections failed"),
  };
}
