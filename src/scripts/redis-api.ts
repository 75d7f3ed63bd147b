/** The part of Redis that scripts may use, with Lua's types: a missing value is `false`, an integer is a number. */

export type RedisValue = string | number;

export interface RedisApi {
  /** Runs one command. Only the commands listed here exist in the embedded store. */
  call: RedisCall;
  /** As `call`, but errors are ignored: the user of the connection may lack the permission. */
  pcall(this: void, command: "PUBLISH", channel: string, message: string): unknown;
}

/** A value or field in Redis; false if it is missing. */
export type Stored = string | false;

export interface RedisCall {
  (this: void, command: "TIME"): [seconds: string, microseconds: string];
  (this: void, command: "GET", key: string): Stored;
  (this: void, command: "SET", key: string, value: RedisValue, ...expiry: [] | ["PX", milliseconds: number]): unknown;
  (this: void, command: "DEL" | "EXISTS" | "INCR", key: string): number;
  (this: void, command: "INCRBY", key: string, by: number): number;
  (this: void, command: "PEXPIRE", key: string, milliseconds: number): number;
  (this: void, command: "HGET", key: string, field: string): Stored;
  <F extends string[]>(this: void, command: "HMGET", key: string, ...fields: F): { [I in keyof F]: Stored };
  (this: void, command: "HGETALL", key: string): string[];
  (this: void, command: "HSET", key: string, ...fieldsAndValues: RedisValue[]): number;
  (this: void, command: "HDEL", key: string, ...fields: string[]): number;
  (this: void, command: "ZADD", key: string, ...entry: ScoredMember | ["XX" | "NX", ...ScoredMember]): number;
  (this: void, command: "ZREM", key: string, member: string): number;
  (this: void, command: "ZCARD", key: string): number;
  (this: void, command: "ZSCORE", key: string, member: string): Stored;
  (this: void, command: "ZCOUNT", key: string, from: RedisValue, to: RedisValue): number;
  (this: void, command: "ZREMRANGEBYSCORE", key: string, from: RedisValue, to: RedisValue): number;
  (this: void, command: "ZRANGE", key: string, ...range: [number, number] | [number, number, "WITHSCORES"]): string[];
}

type ScoredMember = [score: number, member: string];

/** A flat list of whole numbers and texts, the same from Redis and from the embedded store. */
export type ScriptReply = RedisValue[];

export type Script = (redis: RedisApi, keys: string[], argv: string[]) => ScriptReply;
