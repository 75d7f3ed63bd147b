/** What operators can learn and order, whoever asks: the work behind the control listener's admin and health endpoints. */

import type { LiveConfig } from "../../config/live.js";
import type { Pod } from "../../config/options/slots.js";
import type { AppLimits } from "../../core/limits.js";
import type { Coordinator } from "../../quota/coordinator.js";
import type { Quota } from "../../quota/quota.js";
import type { Slots } from "../../slots/slots.js";
import type { Store } from "../../store/store.js";
import type * as contract from "../control/contract/contract.js";
import type { Reply } from "../control/endpoint.js";
import type { ReportRequest, Reports } from "../metrics/reports.js";
import { appOperations } from "./apps.js";
import { configOperations } from "./configuration.js";
import { connectionsOperation } from "./connections.js";
import { degradationOperations } from "./degradation.js";
import { emergencyOperations } from "./emergency.js";
import { healthOperations } from "./health.js";
import { createKnowledge } from "./knowledge.js";
import type { Pin } from "./pin.js";
import { quotaOrders } from "./quota-orders.js";
import { statusOperation } from "./status.js";

/** One answer of each worker that listens and answers in time. */
export type Ask = <Q extends ReportRequest>(question: Q) => Promise<Reports[Q["kind"]][]>;

export interface OperationsDeps {
  /** This service among all that share the limits. */
  node: string;
  /** Of the program. */
  version: string;
  live: Pick<LiveConfig, "current" | "version" | "loadedAtMs" | "lastError" | "reload" | "layer" | "putLayer">;
  /** The apps of the configuration in force, and its version for data planes. The same list while nothing changed. */
  apps(): readonly AppLimits[];
  quota: Pick<Quota, "inspect" | "nodes" | "ledger">;
  coordinator: Pick<Coordinator, "emergency" | "emergencyOn" | "emergencyOff" | "reconcileNow" | "borrow" | "repay">;
  store: Pick<Store, "kind" | "inspect">;
  slots: Pick<Slots, "counts">;
  /** Where connections may go, as "host:port". */
  pods(): readonly Pod[];
  ask: Ask;
  /** Workers that there should be, and those that listen. None are expected where there is no gateway. */
  workers(): { expected: number; listening: number };
  pin: Pin;
  /** The level that data planes are told. */
  serviceLevel(): number;
  state(): "starting" | "running" | "stopping";
  /** How many metrics there are; 0 when they are off. */
  metricsSize(): number;
  /** Milliseconds since 1970. */
  wallClock?: () => number;
}

/** Each answers within seconds, whatever the store does. Where it cannot be answered without the store: a StoreError. */
export interface Operations {
  live(): Reply<contract.LiveReply>;
  ready(): Promise<Reply<contract.ReadyReply>>;
  deep(): Promise<Reply<contract.DeepReply>>;
  status(): Promise<Reply<contract.StatusReply>>;
  degradation(): Promise<Reply<contract.DegradationState>>;
  setDegradation(order: contract.DegradationOrder, operator: string): Promise<Reply<contract.DegradationReply>>;
  unpinDegradation(): Promise<Reply<contract.DegradationState>>;
  emergency(): Promise<Reply<contract.EmergencyStateReply>>;
  setEmergency(order: contract.EmergencyCommand, operator: string): Promise<Reply<contract.EmergencyReply>>;
  reconcile(order: contract.ReconcileOrder): Promise<Reply<contract.ReconcileReply>>;
  reload(order: contract.ReloadOrder): Promise<Reply<contract.ReloadReply>>;
  layer(): Promise<Reply<contract.LayerReply>>;
  putLayer(order: Pick<contract.LayerOrder, "config" | "expected_revision">): Promise<Reply<contract.LayerReply>>;
  borrow(order: contract.BorrowOrder): Promise<Reply<contract.BorrowReply>>;
  repay(order: contract.BorrowOrder): Promise<Reply<contract.RepayReply>>;
  apps(query: contract.AppsQuery): Promise<Reply<contract.AppsReply>>;
  app(id: string): Promise<Reply<contract.AppReply>>;
  connections(): Promise<Reply<contract.ConnectionsReply>>;
}

export function createOperations(deps: OperationsDeps): Operations {
  const know = createKnowledge(deps);
  return {
    ...healthOperations(know),
    status: statusOperation(know),
    ...degradationOperations(know),
    ...emergencyOperations(know),
    ...quotaOrders(know),
    ...configOperations(know),
    ...appOperations(know),
    connections: connectionsOperation(know),
  };
}
