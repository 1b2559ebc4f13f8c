import { useSignal } from "@preact/signals";
import { useCallback, useEffect, useMemo } from "preact/hooks";
import { get } from "../../api/client.ts";
import type { ItemStatus, ItemsSummary, LoopItem, LoopItemPage } from "../../api/types.gen.ts";
import { setQuery } from "../../location.ts";
import { Button } from "../../parts/button.tsx";
import { List } from "../../parts/list.tsx";
import { PagedList } from "../../parts/paged.ts";
import { PagedRows } from "../../parts/paged-rows.tsx";
import { Empty, ProblemBox } from "../../parts/states.tsx";
import { Windows } from "../../parts/windows.ts";
import type { RunModel } from "../model.ts";
import { select, selection } from "../selection.ts";
import { ITEM_HEIGHT, ItemCells, ItemColumns } from "./row.tsx";

interface ItemListProps {
  model: RunModel;
  run: string;
  figures: ItemsSummary;
  status: ItemStatus | "";
  q: string;
}

/** The number of items with a status; without one, of all. */
export function countOf(figures: ItemsSummary, status: ItemStatus | ""): number {
  return figures[status === "pending" ? "remaining" : status || "total"];
}

/** All items by their index, or those that a status and a text select. */
export function ItemList(props: ItemListProps) {
  return props.status || props.q ? <FilteredItems {...props} /> : <AllItems {...props} />;
}

function AllItems({ model, run, figures }: ItemListProps) {
  const windows = useMemo(() => itemWindows(model, run), [model, run]);
  const cursor = useChosen(run);
  useEffect(() => () => windows.stop(), [windows]);
  useEffect(() => windows.refresh(), [figures, windows]);
  const want = useCallback((first: number, last: number) => windows.want(first, last), [windows]);
  const problem = windows.problem.value;
  if (problem) return <ProblemBox problem={problem} onRetry={() => windows.refresh()} />;
  return (
    <div class="items-list">
      <List
        label="Items"
        total={figures.total}
        rowHeight={ITEM_HEIGHT}
        active={cursor.value}
        columns={<ItemColumns />}
        rowClass={() => "item-row"}
        onWindow={want}
        onActive={(row) => {
          cursor.value = row;
        }}
        onOpen={(row) => select({ run, item: row })}
      >
        {(row) => <ItemCells index={row} item={windows.row(row)} />}
      </List>
    </div>
  );
}

function FilteredItems({ model, run, figures, status, q }: ItemListProps) {
  const list = useMemo(() => itemList(model, run, status, q), []);
  const items = list.items.value;
  const matching = countOf(figures, status);
  const listed = useSignal(matching); // how many matched when the list was read
  const read = () => {
    listed.value = matching;
    void list.start(-1, figures.total);
  };
  useEffect(() => () => list.stop(), []);
  useEffect(() => {
    if (!items.length) read(); // nothing moves that a user could be reading
  }, [matching]);
  const cursor = useSignal(-1);
  const chosen = selection.value.item;
  useEffect(() => {
    if (chosen !== null) cursor.value = items.findIndex(({ index }) => index === chosen);
  }, [chosen, items]);
  return (
    <div class="items-list">
      <PagedRows
        list={list}
        label="Items"
        word="item"
        rowHeight={ITEM_HEIGHT}
        active={cursor.value}
        columns={<ItemColumns />}
        rowClass={() => "item-row"}
        empty={
          <Empty text="No item matches.">
            <Button onClick={() => setQuery({ status: null, q: null })}>Clear filters</Button>
          </Empty>
        }
        note={matching !== listed.value && <Button onClick={read}>New items</Button>}
        onActive={(row) => {
          cursor.value = row;
        }}
        onOpen={(row) => {
          const item = items[row];
          if (item) select({ run, item: item.index });
        }}
      >
        {(item) => <ItemCells index={item.index} item={item} />}
      </PagedRows>
    </div>
  );
}

/** The row of the selected item; keys move it without selecting. */
function useChosen(run: string) {
  const { run: ofRun, item } = selection.value;
  const chosen = ofRun === run && item !== null ? item : -1;
  const cursor = useSignal(chosen);
  useEffect(() => {
    cursor.value = chosen;
  }, [chosen]);
  return cursor;
}

function itemWindows(model: RunModel, run: string): Windows<LoopItem> {
  return new Windows<LoopItem>(async (first, limit, signal) => {
    const items: LoopItem[] = [];
    let after: number | null = first - 1;
    while (after !== null && items.length < limit) {
      const query = { run, at: model.settled.peek(), after, limit: limit - items.length };
      const page: LoopItemPage = await get<LoopItemPage>(model.path("items"), { query, signal });
      items.push(...page.items);
      after = page.next;
    }
    return items;
  });
}

function itemList(model: RunModel, run: string, status: string, q: string): PagedList<LoopItem> {
  return new PagedList<LoopItem>(
    async ({ after }, signal) => {
      const query = { run, at: model.settled.peek(), status, q, after, limit: 200 };
      const page = await get<LoopItemPage>(model.path("items"), { query, signal });
      return { ...page, prev: null };
    },
    ({ index }) => index,
  );
}
