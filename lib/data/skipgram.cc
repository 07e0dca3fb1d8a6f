// Words and what stands near them, for word2vec's skip-gram with negative sampling (Mikolov et al. 2013): a sample is a
// word, one of the words around it, and some that are drawn from all; labels are 1 for the second and 0 for the drawn
// ones. Words are runs of letters, in lower case; those that are not among the most frequent are left out.
//
//   [data.train]
//   format = "skipgram"
//   files = "corpus.txt"      or a list
//   vocab = 5000              the most frequent words of the training data; default: what the network looks up
//   window = 5                words on each side
//   negatives = 5             drawn, each with a probability that grows with the 3/4th power of its frequency
//   part = [0, 0.9]           of each file's words
//
// network.input is [2 + negatives], the loss takes [1 + negatives] numbers.
#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <map>

#include "base/check.h"
#include "base/philox.h"
#include "data/array_dataset.h"
#include "data/registry.h"

namespace dtrain::data {
namespace {

constexpr uint64_t kMostBytes = uint64_t{1} << 32;

struct Word {
  std::string text;
  int64_t count = 0;
};

// The words of the training data, most frequent first, and how they are drawn.
class Vocabulary {
 public:
  explicit Vocabulary(std::vector<Word> words) : words_(std::move(words)) {
    double sum = 0;
    for (size_t i = 0; i < words_.size(); ++i) {
      number_[words_[i].text] = static_cast<int32_t>(i);
      const double root = std::sqrt(static_cast<double>(words_[i].count));  // roots are the same on every host
      cumulative_.push_back(sum += root * std::sqrt(root));
    }
  }

  static Vocabulary of(const std::vector<std::vector<std::string>>& texts, int64_t most) {
    std::map<std::string_view, int64_t> counts;
    for (const auto& text : texts)
      for (const std::string& word : text) ++counts[word];
    std::vector<Word> words;
    for (const auto& [word, count] : counts) words.push_back({std::string(word), count});
    std::stable_sort(words.begin(), words.end(), [](const Word& a, const Word& b) { return a.count > b.count; });
    if (static_cast<int64_t>(words.size()) > most) words.resize(static_cast<size_t>(most));
    return Vocabulary(std::move(words));
  }

  // Lines of a word and its count; nothing where it is something else.
  static std::optional<Vocabulary> from_text(std::string_view text) {
    std::vector<Word> words;
    while (!text.empty()) {
      const std::string_view line = text.substr(0, text.find('\n'));
      text.remove_prefix(std::min(text.size(), line.size() + 1));
      const size_t space = line.find(' ');
      Word word;
      if (space == std::string_view::npos) return std::nullopt;
      const char* const end = line.data() + line.size();
      const auto [stop, error] = std::from_chars(line.data() + space + 1, end, word.count);
      if (error != std::errc() || stop != end || word.count < 1) return std::nullopt;
      word.text = line.substr(0, space);
      words.push_back(std::move(word));
    }
    if (words.empty()) return std::nullopt;
    return Vocabulary(std::move(words));
  }
  std::string text() const {
    std::string text;
    for (const Word& word : words_) text += fmt::format("{} {}\n", word.text, word.count);
    return text;
  }

  size_t size() const { return words_.size(); }
  // −1 for one that is not among them.
  int32_t number(const std::string& word) const {
    const auto at = number_.find(word);
    return at == number_.end() ? -1 : at->second;
  }
  int32_t draw(uint32_t word) const {
    const double u = static_cast<double>(word) * 0x1p-32 * cumulative_.back();
    const auto at = std::upper_bound(cumulative_.begin(), cumulative_.end(), u);
    return static_cast<int32_t>(std::min(at - cumulative_.begin(), static_cast<ptrdiff_t>(size()) - 1));
  }

 private:
  std::vector<Word> words_;
  std::map<std::string, int32_t, std::less<>> number_;
  std::vector<double> cumulative_;
};

std::vector<std::string> words_of(std::string_view text) {
  std::vector<std::string> words;
  std::string word;
  for (const char c : text) {
    const char lower = c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
    if (lower >= 'a' && lower <= 'z') {
      word += lower;
    } else if (!word.empty()) {
      words.push_back(std::move(word));
      word.clear();
    }
  }
  if (!word.empty()) words.push_back(std::move(word));
  return words;
}

class SkipgramDataset final : public Dataset {
 public:
  SkipgramDataset(Vocabulary vocabulary, std::vector<std::vector<int32_t>> texts, int64_t window, int64_t negatives,
                  DType dtype)
      : vocabulary_(std::move(vocabulary)),
        texts_(std::move(texts)),
        window_(window),
        negatives_(negatives),
        dtype_(dtype),
        shape_({2 + negatives}),
        labels_{LabelKind::kValues, Shape{1 + negatives}} {
    for (const auto& text : texts_) {
      before_.push_back(words_);
      words_ += static_cast<int64_t>(text.size());
    }
  }

  int64_t size() const override { return words_ * 2 * window_; }
  const Shape& sample_shape() const override { return shape_; }
  DType sample_dtype() const override { return dtype_; }
  const LabelSpec& labels() const override { return labels_; }
  int64_t max_label() const override { return -1; }
  std::string preprocessing() const override { return vocabulary_.text(); }

  Status read(const Draw& draw, SampleOut sample, LabelOut label) const override {
    DTRAIN_CHECK(draw.index >= 0 && draw.index < size(), "sample {} of {}", draw.index, size());
    const int64_t place = draw.index / (2 * window_), which = draw.index % (2 * window_);
    const auto next = std::upper_bound(before_.begin(), before_.end(), place);
    const std::vector<int32_t>& text = texts_[static_cast<size_t>(next - before_.begin() - 1)];
    const int64_t at = place - *(next - 1), last = static_cast<int64_t>(text.size()) - 1;
    // At the ends of a text what would be beyond them is on the other side.
    const int64_t distance = which < window_ ? which - window_ : which - window_ + 1;
    int64_t near = at + distance < 0 || at + distance > last ? at - distance : at + distance;
    near = std::clamp<int64_t>(near, 0, last);
    const auto put = [&](size_t i, int32_t word) {
      if (dtype_ == DType::kI32)
        sample.tokens[i] = word;
      else
        sample.values[i] = static_cast<float>(word);
    };
    put(0, text[static_cast<size_t>(at)]);
    put(1, text[static_cast<size_t>(near)]);
    label.values[0] = 1.0f;
    const Philox random(draw.seed, stream_id("skipgram/negatives"), static_cast<uint32_t>(draw.number),
                        static_cast<uint32_t>(draw.number >> 32));
    for (int64_t i = 0; i < negatives_; ++i) {
      put(static_cast<size_t>(2 + i), vocabulary_.draw(random.at(static_cast<uint64_t>(i))));
      label.values[static_cast<size_t>(1 + i)] = 0.0f;
    }
    return {};
  }

  Digest digest() const override {
    Sha256 hash;
    hash.update(fmt::format("skipgram {} {} {} ", window_, negatives_, dtype_ == DType::kI32));
    hash.update(vocabulary_.text());
    for (const auto& text : texts_) {
      hash.update(fmt::format(" {} ", text.size()));
      hash.update(ByteSpan(std::as_bytes(std::span(text))));
    }
    return hash.finish();
  }

 private:
  Vocabulary vocabulary_;
  std::vector<std::vector<int32_t>> texts_;
  std::vector<int64_t> before_;  // words in earlier texts
  int64_t words_ = 0;
  int64_t window_, negatives_;
  DType dtype_;
  Shape shape_;
  LabelSpec labels_;
};

std::unique_ptr<Dataset> make_skipgram(config::TableReader& table, const DatasetContext& context) {
  const std::vector<std::string> paths = table.require_paths("files");
  table.also_known("vocab");
  const int64_t most = context.token_classes > 0 ? context.token_classes : std::numeric_limits<int32_t>::max();
  const int64_t vocab = table.has("vocab") ? table.integer("vocab", 1, 1, std::numeric_limits<int32_t>::max()) : most;
  const int64_t window = table.integer("window", 5, 1, 1000), negatives = table.integer("negatives", 5, 1, 1000);
  std::vector<double> part = table.numbers("part", {0, 1}, 0, 1);
  if (part.size() != 2 || part[0] >= part[1]) {
    table.error("part", "part is [from, to], fractions of each file: 0 ≤ from < to ≤ 1");
    part = {0, 1};
  }
  if (context.network_input.elements() != 2 + negatives)
    table.error("negatives", fmt::format("a sample is a word, one near it and {} others, but network.input is {}",
                                         negatives, to_string(context.network_input)));
  if (vocab > most)
    table.error("vocab", fmt::format("vocab is {}, but the network knows the tokens 0 … {}", vocab, most - 1));
  if (!table.diagnostics().ok()) return nullptr;
  std::vector<std::vector<std::string>> texts;
  for (const std::string& path : paths) {
    const Result<std::string> text = context.files.read_file(path, kMostBytes);
    if (!text) {
      report(table, "files", text.error());
      continue;
    }
    const std::vector<std::string> words = words_of(*text);
    const auto cut = [&](double fraction) {
      return words.begin() + static_cast<ptrdiff_t>(std::floor(fraction * static_cast<double>(words.size())));
    };
    texts.emplace_back(cut(part[0]), cut(part[1]));
  }
  if (!table.diagnostics().ok()) return nullptr;
  std::optional<Vocabulary> vocabulary;
  if (context.preprocessing.empty()) {
    vocabulary = Vocabulary::of(texts, vocab);
  } else if (!(vocabulary = Vocabulary::from_text(context.preprocessing))) {
    table.error("format", "the model has learnt no words: it was trained on data of another format");
    return nullptr;
  }
  std::vector<std::vector<int32_t>> numbered;
  for (const auto& text : texts) {
    std::vector<int32_t> numbers;
    for (const std::string& word : text)
      if (const int32_t number = vocabulary->number(word); number >= 0) numbers.push_back(number);
    if (numbers.size() > 1) numbered.push_back(std::move(numbers));
  }
  if (numbered.empty()) {
    table.error("files", "files: none has two words next to each other", ExitCode::kData);
    return nullptr;
  }
  return std::make_unique<SkipgramDataset>(std::move(*vocabulary), std::move(numbered), window, negatives,
                                           context.token_classes > 0 ? DType::kI32 : DType::kF32);
}

const DatasetRegistration kRegistration("skipgram", make_skipgram);

}  // namespace
}  // namespace dtrain::data
