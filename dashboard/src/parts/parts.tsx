/** Small parts that several views use: tiles, badges, bars, banners, tables and messages. */
import type { ComponentChildren } from "preact";
import { useEffect, useRef } from "preact/hooks";
import { Icon, type IconName } from "./icons.js";

export type Tone = "good" | "warn" | "bad" | "info" | "neutral";

export function Badge({ tone, children }: { tone: Tone; children: ComponentChildren }) {
  return <span class={`badge badge-${tone}`}>{children}</span>;
}

interface TileProps {
  label: string;
  value: string;
  unit?: string;
  note?: ComponentChildren;
  tone?: Tone;
}

export function Tile({ label, value, unit, note, tone = "neutral" }: TileProps) {
  return (
    <div class={`card tile tile-${tone}`}>
      <dt>{label}</dt>
      <dd>
        <span class="tile-value num">{value}</span>
        {unit !== undefined && <span class="tile-unit">{unit}</span>}
        <span class="tile-note num">{note ?? "\u00a0"}</span>
      </dd>
    </div>
  );
}

/** A level from 0 to 1 with a label for screen readers. */
export function Bar({ share, label, tone = "info" }: { share: number; label: string; tone?: Tone }) {
  const width = Math.min(Math.max(share, 0), 1) * 100;
  return (
    <span
      class={`bar bar-${tone}`}
      role="progressbar"
      aria-label={label}
      aria-valuenow={Math.round(width)}
      aria-valuemin={0}
      aria-valuemax={100}
    >
      <span style={{ width: `${width}%` }} />
    </span>
  );
}

export function Banner({ tone, title, children }: { tone: Tone; title: string; children?: ComponentChildren }) {
  return (
    <div class={`banner banner-${tone}`} role={tone === "bad" ? "alert" : "status"}>
      <Icon name="alert" size={20} />
      <div>
        <strong>{title}</strong>
        {children !== undefined && <p>{children}</p>}
      </div>
    </div>
  );
}

export function Card({
  title,
  action,
  children,
}: {
  title: string;
  action?: ComponentChildren;
  children: ComponentChildren;
}) {
  return (
    <section class="card">
      <header class="card-head">
        <h3>{title}</h3>
        {action}
      </header>
      {children}
    </section>
  );
}

export function Empty({ icon, title, children }: { icon: IconName; title: string; children?: ComponentChildren }) {
  return (
    <div class="empty">
      <Icon name={icon} size={28} />
      <strong>{title}</strong>
      {children !== undefined && <p>{children}</p>}
    </div>
  );
}

export function Failure({ text }: { text: string }) {
  if (text === "") return null;
  return (
    <p class="form-error" role="alert">
      {text}
    </p>
  );
}

interface SearchProps {
  label: string;
  placeholder?: string;
  /** For use in a form. */
  name?: string;
  value?: string;
  maxLength?: number;
  changed?(value: string): void;
}

export function Search({ label, placeholder = "Search", name, value, maxLength = 2_048, changed }: SearchProps) {
  return (
    <div class="search">
      <Icon name="search" size={16} />
      <input
        type="search"
        aria-label={label}
        placeholder={placeholder}
        name={name}
        value={value}
        maxLength={maxLength}
        onInput={(event) => changed?.(event.currentTarget.value)}
      />
    </div>
  );
}

/** Placeholder of the size of what is loading. */
export function Loading({ rows = 4 }: { rows?: number }) {
  return (
    <div class="loading" role="status" aria-label="Loading">
      {Array.from({ length: rows }, (_, i) => (
        <span key={i} />
      ))}
    </div>
  );
}

export function PageHead({ title, children }: { title: string; children?: ComponentChildren }) {
  return (
    <header class="page-head">
      <h1>{title}</h1>
      {children}
    </header>
  );
}

interface DialogProps {
  title: string;
  close(): void;
  children: ComponentChildren;
}

/** A modal dialog of the browser: it keeps the focus inside and closes with Escape. */
export function Dialog({ title, close, children }: DialogProps) {
  const dialog = useRef<HTMLDialogElement>(null);
  useEffect(() => dialog.current?.showModal(), []);
  return (
    <dialog ref={dialog} class="dialog" aria-label={title} onClose={close}>
      <header class="card-head">
        <h2>{title}</h2>
        <button type="button" class="icon-button" aria-label="Close" onClick={() => dialog.current?.close()}>
          <Icon name="close" />
        </button>
      </header>
      {children}
    </dialog>
  );
}
