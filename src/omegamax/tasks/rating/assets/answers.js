// What somebody has rated so far: kept in the browser under the survey and the name, saved as a file, read from one.

// For each picture and each look as shown: { text: 1 to 5 or null, words: for each word rated 1 to 5 or null }.
const emptyAnswers = () => data.pictures.map(({ looks }) =>
  looks.map((look) => ({ text: null, words: look.rated.map(() => null) })));

const keptUnder = (rater) => `${data.format} ${data.survey} ${rater}`;

function keep(rater, answers) {
  try {
    localStorage.setItem(keptUnder(rater), JSON.stringify(answers));
    localStorage.setItem(`${data.format} ${data.survey}`, rater);
    return true;
  } catch {
    return false;  // storage is full, or switched off
  }
}

function recall(rater) {
  try {
    return settle(JSON.parse(localStorage.getItem(keptUnder(rater)))) ?? emptyAnswers();
  } catch {
    return emptyAnswers();
  }
}

function lastRater() {
  try {
    return localStorage.getItem(`${data.format} ${data.survey}`) ?? "";
  } catch {
    return "";
  }
}

// Answers as they should be, or null where these are of another form.
function settle(given) {
  const made = emptyAnswers();
  const fits = (a, b) => Array.isArray(a) && a.length === b.length;
  const grade = (value) => (Number.isInteger(value) && value >= 1 && value <= 5 ? value : null);
  if (!fits(given, made)) return null;
  for (const [p, looks] of made.entries()) {
    if (!fits(given[p], looks)) return null;
    for (const [i, look] of looks.entries()) {
      if (!fits(given[p][i]?.words, look.words)) return null;
      look.text = grade(given[p][i].text);
      look.words = given[p][i].words.map(grade);
    }
  }
  return made;
}

// Answers of both, where both have one that of the first, and how many of these are not the same.
function mergeAnswers(first, second) {
  let differing = 0;
  const pick = (a, b) => {
    if (a != null && b != null && a !== b) differing += 1;
    return a ?? b;
  };
  const merged = first.map((looks, p) => looks.map((look, i) => ({
    text: pick(look.text, second[p][i].text),
    words: look.words.map((value, k) => pick(value, second[p][i].words[k])),
  })));
  return [merged, differing];
}

const listed = (answers) => answers.flat().flatMap((look) => [look.text, ...look.words]);
const countGiven = (answers) => listed(answers).filter((value) => value != null).length;

function exportAnswers(rater, answers) {
  const file = { format: data.format, survey: data.survey, rater, saved: new Date().toISOString(), answers, key: data.sealed };
  const address = URL.createObjectURL(new Blob([JSON.stringify(file, null, 1)], { type: "application/json" }));
  element("a", { href: address, download: fileName("ratings", data.survey, rater).replace(/png$/, "json") }).click();
  setTimeout(() => URL.revokeObjectURL(address), 10000);
}

// Name and answers of a file; an error says why it cannot be used.
async function importAnswers(file) {
  let given;
  try {
    given = JSON.parse(await file.text());
  } catch {
    throw new Error("This is no file of answers.");
  }
  if (given?.format !== data.format) throw new Error("This is no file of answers.");
  if (given.survey !== data.survey) throw new Error("These are answers to another page.");
  const answers = settle(given.answers);
  if (!answers || typeof given.rater !== "string" || !given.rater.trim()) throw new Error("The file is damaged.");
  return [given.rater.trim(), answers];
}
