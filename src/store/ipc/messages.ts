/** Messages between a worker and the primary process about the store, and the channel that carries them. */
import type { EventEmitter } from "node:events";
import type { StoreErrorKind } from "../errors.js";

/** `args` are those of the store's method. `subscribe` has no handler: messages are sent to the worker. */
export interface StoreCall {
  store: "call";
  id: number;
  method: "run" | "publish" | "subscribe" | "unsubscribe" | "inspect";
  args: unknown[];
}

export type StoreAnswer =
  | { store: "answer"; id: number; value: unknown }
  | { store: "failure"; id: number; kind: StoreErrorKind; message: string }
  | { store: "message"; channel: string; message: string };

/** One end of the IPC channel: `process` in a worker, `worker.process` in the primary. It also carries other messages. */
export interface IpcEnd extends Pick<EventEmitter, "on" | "off"> {
  send?(message: object, done: (error: Error | null) => void): boolean;
}

/** Calls `failed` if the other end cannot be reached. */
export function sendOn(end: IpcEnd, message: StoreCall | StoreAnswer, failed = (_error: Error) => {}): void {
  if (end.send === undefined) failed(new Error("there is no IPC channel"));
  else end.send(message, (error) => error !== null && failed(error));
}
