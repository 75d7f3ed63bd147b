/** What a worker tells the primary of its metrics: few and plain numbers, as a scrape must not stop it from deciding. */

export interface MetricsReport {
  node: string;
  /** Tells the lives of a node apart: a replaced worker has the name of its predecessor. */
  life: string;
  /** Counts the reports of one life. */
  seq: number;
  /** Numbers that only grow, by what they count; `counters.ts` says what stands where. */
  counters: Record<string, number[]>;
  now: NodeGauges;
}

/** What is true at the moment, and says nothing any more when the worker is gone. */
export interface NodeGauges {
  level: number;
  lagSeconds: number;
  lagP99Seconds: number;
  /** Tokens on leases, by label of app. */
  balances: [label: string, tokens: number][];
  pods: PodGauge[];
  proxies: ProxyGauge[];
}

export interface PodGauge {
  upstream: string;
  pod: string;
  active: number;
  /** Of all proxies together. */
  limit: number;
}

export interface ProxyGauge {
  proxy: string;
  active: number;
}
