//! Tables of named columns as Parquet files, by polars' own encoder and decoder.
//!
//! polars' data frames are not needed for this: they alone take as long to build as the rest of
//! the harness (`docs/building.md`).

use std::io::{Cursor, Write};

use arrow::array::{Array, PrimitiveArray, Utf8Array, Utf8ViewArray};
use arrow::datatypes::{ArrowDataType, ArrowSchema, Field};
use arrow::record_batch::RecordBatchT;
use polars_buffer::Buffer;
use polars_error::{PolarsResult, polars_err};
use polars_parquet::read::{
    BasicDecompressor, ColumnChunkMetadata, FileMetadata, PageReader, column_iter_to_arrays,
    infer_schema, read_metadata,
};
use polars_parquet::write::{
    CompressionOptions, FileWriter, StatisticsOptions, Version, WriteOptions, get_dtype_encoding,
    row_group_iter,
};

/// Rows per row group; polars' own default.
const ROW_GROUP: usize = 512 * 512;

/// The values of a column, one per row.
pub(super) enum Values {
    /// Text.
    Text(Vec<Option<String>>),
    /// Whole numbers, signed in files: differences of unsigned ones wrap in other programs.
    Whole(Vec<Option<u64>>),
    /// Real numbers.
    Real(Vec<Option<f64>>),
}

impl Values {
    fn len(&self) -> usize {
        match self {
            Self::Text(values) => values.len(),
            Self::Whole(values) => values.len(),
            Self::Real(values) => values.len(),
        }
    }

    /// Returns whether any is another than 0.
    pub(super) fn any_counts(&self) -> bool {
        match self {
            Self::Text(_) => false,
            Self::Whole(values) => values.iter().flatten().any(|whole| *whole > 0),
            Self::Real(values) => values.iter().flatten().any(|real| *real != 0.0),
        }
    }

    /// Returns whether any is known.
    pub(super) fn any_known(&self) -> bool {
        match self {
            Self::Text(values) => values.iter().any(Option::is_some),
            Self::Whole(values) => values.iter().any(Option::is_some),
            Self::Real(values) => values.iter().any(Option::is_some),
        }
    }

    fn dtype(&self) -> ArrowDataType {
        match self {
            // Readers know this type of text longer than that of views.
            Self::Text(_) => ArrowDataType::LargeUtf8,
            Self::Whole(_) => ArrowDataType::Int64,
            Self::Real(_) => ArrowDataType::Float64,
        }
    }

    /// The rows from `start` to `end` as an arrow array.
    fn array(&self, start: usize, end: usize) -> Box<dyn Array> {
        match self {
            Self::Text(values) => Utf8Array::<i64>::from(&values[start..end]).boxed(),
            Self::Whole(values) => {
                let signed = |whole: &Option<u64>| whole.map(u64::cast_signed);
                PrimitiveArray::<i64>::from_iter(values[start..end].iter().map(signed)).boxed()
            }
            Self::Real(values) => PrimitiveArray::from(&values[start..end]).boxed(),
        }
    }

    /// No rows yet, of the type that a file states for a column.
    fn empty(dtype: &ArrowDataType) -> Option<Self> {
        match dtype {
            // The reader takes every type of text as views.
            ArrowDataType::Utf8View => Some(Self::Text(Vec::new())),
            ArrowDataType::Int64 => Some(Self::Whole(Vec::new())),
            ArrowDataType::Float64 => Some(Self::Real(Vec::new())),
            _ => None,
        }
    }

    /// Appends the rows of an array, unless it is of another type.
    fn append(&mut self, array: &dyn Array) -> Option<()> {
        let array = array.as_any();
        match self {
            Self::Text(values) => {
                let array = array.downcast_ref::<Utf8ViewArray>()?;
                values.extend(array.iter().map(|text| text.map(str::to_owned)));
            }
            Self::Whole(values) => {
                let array = array.downcast_ref::<PrimitiveArray<i64>>()?;
                let unsigned = |whole: Option<&i64>| whole.map(|whole| whole.cast_unsigned());
                values.extend(array.iter().map(unsigned));
            }
            Self::Real(values) => {
                let array = array.downcast_ref::<PrimitiveArray<f64>>()?;
                values.extend(array.iter().map(Option::<&f64>::copied));
            }
        }
        Some(())
    }
}

/// A named column.
pub(super) struct Column {
    /// Name of the column, unique within a table.
    pub(super) name: String,
    /// Values of the column.
    pub(super) values: Values,
}

/// Writes `columns`, which are equally long, as one Parquet file compressed by Zstandard.
///
/// # Errors
/// When the writer fails.
pub(super) fn write(writer: impl Write, columns: &[Column]) -> PolarsResult<()> {
    let rows = columns.first().map_or(0, |column| column.values.len());
    let fields = columns.iter().map(|column| {
        let field = Field::new(column.name.as_str().into(), column.values.dtype(), true);
        (field.name.clone(), field)
    });
    let schema: ArrowSchema = fields.collect();
    let options = WriteOptions {
        statistics: StatisticsOptions::default(),
        compression: CompressionOptions::Zstd(None),
        version: Version::V1,
        data_page_size: None,
    };
    let fields = schema.iter_values();
    let encodings: Buffer<_> = fields
        .map(|field| get_dtype_encoding(&field.dtype))
        .collect();
    let mut file = FileWriter::try_new(writer, schema.clone(), options)?;
    let fields = file.parquet_schema().fields().to_vec();
    for start in (0..rows).step_by(ROW_GROUP) {
        let end = rows.min(start + ROW_GROUP);
        let arrays = columns.iter().map(|column| column.values.array(start, end));
        let batch = RecordBatchT::try_new(end - start, schema.clone().into(), arrays.collect())?;
        let group = row_group_iter(batch, encodings.clone(), fields.clone(), options);
        file.write((end - start) as u64, group)?;
    }
    file.end(None)?;
    Ok(())
}

/// The columns of a Parquet file.
pub(super) struct Table {
    columns: Vec<Column>,
}

impl Table {
    /// Reads all columns of the file with this content.
    ///
    /// # Errors
    /// When the content is not a Parquet file, or a column is neither text nor a 64-bit number.
    pub(super) fn read(content: Vec<u8>) -> PolarsResult<Self> {
        let content = Buffer::from(content);
        let metadata = read_metadata(&mut Cursor::new(&*content))?;
        let schema = infer_schema(&metadata)?;
        let columns = schema
            .iter_values()
            .map(|field| read_column(&content, &metadata, field));
        Ok(Self {
            columns: columns.collect::<PolarsResult<_>>()?,
        })
    }

    /// The number of rows.
    pub(super) fn rows(&self) -> usize {
        self.columns.first().map_or(0, |column| column.values.len())
    }

    /// The values of a column, or `None` where the file does not have it.
    pub(super) fn values(&self, name: &str) -> Option<&Values> {
        let found = self.columns.iter().find(|column| column.name == name);
        found.map(|column| &column.values)
    }
}

/// Reads one column, a row group after the other.
fn read_column(
    content: &Buffer<u8>,
    metadata: &FileMetadata,
    field: &Field,
) -> PolarsResult<Column> {
    let unreadable =
        || polars_err!(ComputeError: "column `{}` is of type {:?}", field.name, field.dtype);
    let mut values = Values::empty(&field.dtype).ok_or_else(unreadable)?;
    let mut decoded = field.clone();
    if let Values::Text(_) = values {
        decoded.dtype = ArrowDataType::Utf8View;
    }
    for group in &metadata.row_groups {
        let chunks = group.columns_under_root_iter(&field.name);
        let chunks: Vec<&ColumnChunkMetadata> = chunks.ok_or_else(unreadable)?.collect();
        let pages = chunks.iter().map(|chunk| {
            let range = chunk.byte_range();
            let range = range.start as usize..range.end as usize;
            if range.end > content.len() || range.start > range.end {
                return Err(polars_err!(ComputeError: "the file is cut off"));
            }
            let bytes = content.clone().sliced(range);
            let reader = PageReader::new(Cursor::new(bytes), chunk, Vec::new(), usize::MAX);
            Ok(BasicDecompressor::new(reader, Vec::new()))
        });
        let pages = pages.collect::<PolarsResult<Vec<_>>>()?;
        let types = chunks
            .iter()
            .map(|chunk| &chunk.descriptor().descriptor.primitive_type);
        let (arrays, _) = column_iter_to_arrays(pages, types.collect(), decoded.clone(), None)?;
        for array in arrays {
            values.append(array.as_ref()).ok_or_else(unreadable)?;
        }
    }
    Ok(Column {
        name: field.name.to_string(),
        values,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_have_types_that_other_programs_know_and_are_read_back() {
        let column = |name: &str, values| Column {
            name: name.to_owned(),
            values,
        };
        let texts = || vec![Some("a text beyond twelve bytes".to_owned()), None];
        let columns = [
            column("text", Values::Text(texts())),
            column("whole", Values::Whole(vec![Some(7), None])),
            column("real", Values::Real(vec![None, Some(0.5)])),
        ];
        let mut content = Vec::new();
        write(&mut content, &columns).unwrap();
        let schema = infer_schema(&read_metadata(&mut Cursor::new(&content)).unwrap()).unwrap();
        let types = schema.iter_values().map(|field| field.dtype.clone());
        let types: Vec<_> = types.collect();
        assert_eq!(types[1..], [ArrowDataType::Int64, ArrowDataType::Float64]);
        // The reader takes every type of text as views.
        assert_eq!(columns[0].values.dtype(), ArrowDataType::LargeUtf8);
        let table = Table::read(content).unwrap();
        let (text, whole) = (table.values("text"), table.values("whole"));
        assert!(matches!(text, Some(Values::Text(values)) if *values == texts()));
        assert!(matches!(whole, Some(Values::Whole(values)) if *values == [Some(7), None]));
    }
}
