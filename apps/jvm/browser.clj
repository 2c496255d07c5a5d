(ns browser
  "A browser of source files: words, where they occur, and what was looked at and edited."
  (:require [clojure.string :as string]))

(def db (atom {:files [] :words {} :notes {}}))
(def history (atom clojure.lang.PersistentQueue/EMPTY))

(defn- line-of [number text]
  {:number number
   :text text
   :words (vec (remove string/blank? (string/split text #"[^A-Za-z]+")))})

(defn- index-words [words file lines]
  (reduce (fn [found word] (update found word (fnil conj #{}) file))
          words
          (distinct (mapcat :words lines))))

(defn add-file
  "Takes a file into the database."
  [path folder text]
  (let [lines (vec (map-indexed line-of (string/split text #"\n")))]
    (swap! db (fn [{:keys [files] :as state}]
                (-> state
                    (assoc :files (conj files {:path path :folder folder :lines lines}))
                    (update :words index-words (count files) lines))))))

(defn- longest-word [{:keys [lines]}]
  (reduce (fn [a b] (if (< (count a) (count b)) b a)) "" (mapcat :words lines)))

(defn act
  "Views the file `often`, looks up a word of the file `seldom`, and edits a line."
  [often seldom n]
  (let [{:keys [files words]} @db
        file (nth files often)
        word (longest-word (nth files seldom))
        found (mapv #(select-keys (nth files %) [:path :folder]) (get words word))
        lines (:lines file)
        number (mod n (count lines))
        text (str (:text (nth lines number)) " // see " word)]
    (swap! db assoc-in [:files often :lines number] (line-of number text))
    (swap! db update-in [:notes (:path file)] (fnil conj []) {:line number :word word})
    (swap! history (fn [seen]
                     (let [more (conj seen {:file file :word word :found found})]
                       (if (< 200 (count more)) (pop more) more))))
    (count found)))
