//! Solves a Sudoku: chooses a digit, goes on, and goes back where that turns out to be wrong. Nothing is undone by hand.
//!
//! `puzzle` has 81 characters, row by row; all but `1` to `9` are empty squares. The solution is printed, and fills the slot `solution`.
#![no_std]
#![deny(unsafe_code)]

use monohull_std::continuation::{Captured, Checkpoint, capture, rewind};
use monohull_std::error::Error;
use monohull_std::prelude::*;
use monohull_std::slot::SlotString;

/// The choices that may still be made another way: where that is, and which is the next.
#[derive(Default)]
struct Choices(Vec<(Checkpoint, u8)>);

impl Choices {
    /// One of `0..count`, and after a failure the next one: this returns once for each.
    fn choose(&mut self, count: u8) -> Result<u8, Box<dyn Error>> {
        let (checkpoint, choice) = match capture()? {
            Captured::Original(checkpoint) => (checkpoint, 0),
            Captured::Resumed { checkpoint, value, .. } => (checkpoint, value[0]),
        };
        if choice + 1 < count {
            self.0.push((checkpoint, choice + 1));
        }
        Ok(choice)
    }

    /// The last choice was wrong: goes back there. Returns if there is none left.
    fn fail(&mut self) {
        if let Some((checkpoint, next)) = self.0.pop() {
            rewind(&checkpoint, &[next]);
        }
    }
}

/// 0 is an empty square.
struct Grid([u8; 81]);

impl Grid {
    fn read(puzzle: &str) -> Result<Grid, Box<dyn Error>> {
        let squares = puzzle.bytes().map(|byte| if byte.is_ascii_digit() { byte - b'0' } else { 0 });
        let squares: Vec<u8> = squares.collect();
        Ok(Grid(squares.try_into().map_err(|other: Vec<u8>| format!("81 squares, not {}", other.len()))?))
    }

    /// The digits that fit into a square.
    fn fitting(&self, square: usize) -> Vec<u8> {
        let (row, column) = (square / 9, square % 9);
        let sees = |other: usize| {
            let (its_row, its_column) = (other / 9, other % 9);
            its_row == row || its_column == column || (its_row / 3, its_column / 3) == (row / 3, column / 3)
        };
        (1..=9).filter(|digit| !(0..81).any(|other| sees(other) && self.0[other] == *digit)).collect()
    }

    /// The empty square into which the fewest digits fit.
    fn narrowest(&self) -> Option<(usize, Vec<u8>)> {
        let empty = (0..81).filter(|square| self.0[*square] == 0);
        empty.map(|square| (square, self.fitting(square))).min_by_key(|(_, digits)| digits.len())
    }

    /// Nine lines.
    fn text(&self) -> String {
        let rows = self.0.chunks(9).map(|row| row.iter().map(|digit| char::from(b'0' + digit)).chain(['\n']));
        rows.flatten().collect()
    }
}

#[monohull::main]
fn main(puzzle: String) -> Result<(), Box<dyn Error>> {
    let mut grid = Grid::read(&puzzle)?;
    let mut choices = Choices::default();
    while let Some((square, digits)) = grid.narrowest() {
        let Some(most) = digits.len().checked_sub(1) else {
            choices.fail();
            return Err("it has no solution".into());
        };
        let choice = if most == 0 { 0 } else { choices.choose(digits.len() as u8)? };
        grid.0[square] = digits[usize::from(choice)];
    }
    let text = grid.text();
    print!("{text}");
    SlotString::with_slot("solution").push_str(&text);
    Ok(())
}
