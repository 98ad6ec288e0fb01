// Makes and updates elements.  Everything that is shown came from nodes or files, so it is text, never markup.
const byId = (id) => document.getElementById(id);

function make(tag, text, className) {
  const made = document.createElement(tag);
  if (text !== undefined) made.textContent = text;
  if (className) made.className = className;
  return made;
}

// What has not changed is left alone: the reader's selection, focus and scroll position stay.
function setText(element, text) {
  if (element.textContent !== text) element.textContent = text;
}

// The same with what is between backticks as code.
function setMarked(element, text) {
  if (element.dataset.text === text) return;
  element.dataset.text = text;
  element.replaceChildren(...text.split("`").map((part, index) => (index % 2 ? make("code", part) : part)));
}

function setClass(element, className) {
  if (element.className !== className) element.className = className;
}

// Give `parent` one child for each item, made by `create` and then filled by `update`; children are reused in order.
function fill(parent, items, create, update) {
  while (parent.children.length > items.length) parent.lastElementChild.remove();
  items.forEach((item, index) => {
    if (index === parent.children.length) parent.append(create(item));
    update(parent.children[index], item);
  });
}

// A row is {cells, className}; a cell is {text, className, spoken}.  The first cell of a row is its header.
function fillTable(table, titles, rows) {
  if (!table.tHead) {
    table.setAttribute("role", "table");
    const head = make("thead");
    const row = make("tr");
    head.setAttribute("role", "rowgroup");
    row.setAttribute("role", "row");
    for (const title of titles) {
      const cell = make("th", title);
      cell.scope = "col";
      cell.setAttribute("role", "columnheader");
      row.append(cell);
    }
    head.append(row);
    const body = make("tbody");
    body.setAttribute("role", "rowgroup");
    table.append(head, body);
  }
  const createRow = () => {
    const row = make("tr");
    row.setAttribute("role", "row");
    titles.forEach((title, index) => {
      const cell = make(index ? "td" : "th");
      if (!index) cell.scope = "row";
      cell.setAttribute("role", index ? "cell" : "rowheader");
      if (index) cell.dataset.label = title;
      cell.append(make("span"));
      row.append(cell);
    });
    return row;
  };
  fill(table.tBodies[0], rows, createRow, (row, { cells, className }) => {
    setClass(row, className ?? "");
    cells.forEach((cell, index) => {
      setClass(row.children[index], cell.className ?? "");
      setText(row.children[index].firstElementChild, cell.text);
    });
  });
}
