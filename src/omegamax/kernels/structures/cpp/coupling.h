// Whether a relaxation is tight: a distribution over sequences with exactly k ones that has its marginals.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

#include "relaxation.h"

namespace omegamax {

// The sequences that are best at the solution of the relaxation are constant on its blocks; of two neighbours that are
// joined, the one of lower value has ones only where the other has. A distribution over those with k ones that has the
// relaxation's marginals proves that these solve the problem itself, of which the relaxation is a bound.
//
// It is built up by dividing the unit interval into as many atoms as there are blocks with values in (0, 1), each a
// sequence with its probability: block by block, ones go where most are still wanting, as in the theorem of Gale and
// Ryser. Each block but the last splits an atom in two, which is checked: so the sequences are affinely independent, all
// have weight, and when scores change a little only the weights change. The Jacobian is that of the relaxation.
class Coupling {
   public:
    bool exists(const std::vector<Block>& blocks, int64_t k) {
        take_over(blocks, k);
        return couple_wide() && couple_single() && int64_t(atoms_.size()) == int64_t(parts_.size()) + (parts_.empty());
    }

   private:
    static constexpr double ROUNDING = 1e-12;       // of the measure of atoms,
    static constexpr double LEAST = Relaxation::TIE;  // and what is more than that

    struct Part {
        double value;
        int64_t size;
        bool joined;  // to the part before
        bool single;  // left to the end: one entry, whose neighbours are not
        double room;  // of such, the measure of where it may have its ones or not
    };
    struct Atom {
        double measure;
        int64_t wanting;  // ones
    };

    std::vector<Part> parts_;
    std::vector<Atom> atoms_;
    std::vector<uint64_t> bits_;  // [atom, word], a bit for each part
    int64_t words_ = 0;
    std::vector<int32_t> free_, order_;

    void take_over(const std::vector<Block>& blocks, int64_t k) {
        parts_.clear();
        bool before = false;
        for (const Block& b : blocks) {
            const bool within = b.value > 0 && b.value < 1;
            if (within) parts_.push_back({b.value, b.end - b.begin, b.joined && before, false, 1});
            else if (b.value >= 1) k -= b.end - b.begin;
            before = within;
        }
        for (size_t b = 0; b < parts_.size(); b++)
            parts_[b].single = parts_[b].size == 1 && !(parts_[b].joined && parts_[b - 1].single);
        words_ = (int64_t(parts_.size()) + 63) / 64;
        bits_.assign(words_, 0);
        atoms_.assign(1, {1, k});
    }

    bool has(size_t atom, int64_t part) const { return bits_[atom * words_ + part / 64] >> (part % 64) & 1; }

    void set(size_t atom, int64_t part) {
        bits_[atom * words_ + part / 64] |= uint64_t(1) << (part % 64);
        atoms_[atom].wanting -= parts_[part].size;
    }

    // All but the single ones, in order: within what the one before has, or around it.
    bool couple_wide() {
        int64_t last = -1;
        for (int64_t b = 0; b < int64_t(parts_.size()); b++) {
            const Part& part = parts_[b];
            if (!part.joined) last = -1;
            if (part.single) continue;
            free_.clear();
            const bool within = last >= 0 && part.value < parts_[last].value, around = last >= 0 && !within;
            for (size_t a = 0; a < atoms_.size(); a++) {
                const bool had = last >= 0 && has(a, last);
                if (had && around) set(a, b);
                else if (had == within) free_.push_back(int32_t(a));
            }
            if (!choose(b, part.value - (around ? parts_[last].value : 0))) return false;
            last = b;
        }
        return true;
    }

    // The single ones, between what their neighbours have: those with least room first.
    bool couple_single() {
        order_.clear();
        for (int64_t b = 0; b < int64_t(parts_.size()); b++) {
            if (!parts_[b].single) continue;
            order_.push_back(int32_t(b));
            for (size_t a = 0; a < atoms_.size(); a++) {
                const Side side = place(a, b);
                if (side == Side::one) set(a, b);
                if (side != Side::either) parts_[b].room -= atoms_[a].measure;
            }
        }
        std::stable_sort(order_.begin(), order_.end(), [&](int32_t a, int32_t b) { return parts_[a].room < parts_[b].room; });
        for (const int32_t b : order_) {
            double wanted = parts_[b].value;
            free_.clear();
            for (size_t a = 0; a < atoms_.size(); a++) {
                const Side side = place(a, b);
                if (side == Side::one) wanted -= atoms_[a].measure;
                if (side == Side::either) free_.push_back(int32_t(a));
            }
            if (!choose(b, wanted)) return false;
        }
        return std::all_of(atoms_.begin(), atoms_.end(), [](const Atom& a) { return a.wanting == 0; });
    }

    enum class Side { zero, one, either };

    Side place(size_t atom, int64_t b) const {
        for (const int64_t other : {b - 1, b + 1}) {
            if (other < 0 || other >= int64_t(parts_.size()) || !parts_[std::max(b, other)].joined) continue;
            const bool higher = parts_[other].value > parts_[b].value;
            if (has(atom, other) != higher) return higher ? Side::zero : Side::one;
        }
        return Side::either;
    }

    // Gives a part ones of the measure that is wanted, in the free atoms where most are wanting.
    bool choose(int64_t b, double wanted) {
        while (wanted > ROUNDING) {
            if (free_.empty()) return false;
            int64_t most = atoms_[free_[0]].wanting;
            for (const int32_t a : free_) most = std::max(most, atoms_[a].wanting);
            size_t kept = 0;
            for (const int32_t a : free_) {
                if (atoms_[a].wanting != most || wanted <= ROUNDING) {
                    free_[kept++] = a;
                    continue;
                }
                const double rest = atoms_[a].measure - wanted;
                if (rest > ROUNDING) {
                    if (rest <= LEAST || wanted <= LEAST) return false;
                    atoms_[a].measure = wanted;
                    atoms_.push_back({rest, atoms_[a].wanting});
                    bits_.resize(bits_.size() + words_);
                    std::copy_n(bits_.begin() + a * words_, words_, bits_.end() - words_);
                }
                wanted -= atoms_[a].measure;
                set(a, b);
            }
            free_.resize(kept);
        }
        return wanted >= -ROUNDING;
    }
};

}  // namespace omegamax
